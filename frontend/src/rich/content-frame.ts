/** Shows an untrusted document in a sandboxed frame, whose page has an origin and a policy of its own. */

export interface Content {
  kind: "html" | "svg" | "mermaid";
  text: string;
}

/** What the frame answers. */
export interface FrameAnswer {
  ready?: true;
  height?: number;
  /** The content could not be drawn. */
  failed?: true;
}

const ADDRESS = "/chat/frame/";

/** Return a frame that shows the content once it is in the page. */
export function contentFrame(content: Content, title: string, onFailure: () => void = () => undefined): HTMLIFrameElement {
  const frame = document.createElement("iframe");
  frame.className = `content-frame is-${content.kind}`;
  frame.title = title;
  frame.src = ADDRESS;
  frame.setAttribute("sandbox", "allow-scripts");
  frame.loading = "lazy";
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (getComputedStyle(document.documentElement).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const onMessage = (event: MessageEvent<FrameAnswer>): void => {
    if (event.source !== frame.contentWindow || event.source === null) {
      if (!frame.isConnected && frame.dataset["shown"] !== undefined) window.removeEventListener("message", onMessage);
      return;
    }
    // The frame has an opaque origin, so its window can only be named by "*".
    if (event.data.ready) {
      frame.dataset["shown"] = "";
      frame.contentWindow?.postMessage({ ...content, isDark }, "*");
    }
    if (event.data.failed) onFailure();
    if (typeof event.data.height === "number" && content.kind === "mermaid") {
      frame.height = String(Math.min(800, Math.max(40, Math.ceil(event.data.height))));
    }
  };
  window.addEventListener("message", onMessage);
  return frame;
}
