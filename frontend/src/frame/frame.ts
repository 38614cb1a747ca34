/** The page of a sandboxed frame: shows the one document that its parent sends. */
import type { Content, FrameAnswer } from "../rich/content-frame.ts";

function tell(answer: FrameAnswer): void {
  window.parent.postMessage(answer, "*");
}

async function show({ kind, text, isDark }: Content & { isDark: boolean }): Promise<void> {
  if (kind === "mermaid") {
    const { default: mermaid } = await import("mermaid");
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: isDark ? "dark" : "default" });
    const { svg } = await mermaid.render("diagram", text);
    document.body.innerHTML = svg;
    document.body.style.margin = "0";
    document.body.style.textAlign = "center";
    tell({ height: document.body.scrollHeight });
    return;
  }
  document.open();
  document.write(text);
  document.close();
}

window.addEventListener(
  "message",
  (event: MessageEvent<Content & { isDark: boolean }>) => {
    if (event.source !== window.parent) return;
    show(event.data).catch(() => tell({ failed: true }));
  },
  { once: true },
);
tell({ ready: true });
