/** Entry of the canvas: the only script of the pages that loads React. */
import { createRoot } from "react-dom/client";
import { requireElement } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { newId, restWith } from "../lib/rest.ts";
import { connect } from "../lib/socket.ts";
import { type Boot, Cell, type Shared } from "./context.ts";
import { CanvasDocument, type CanvasServer } from "./document.ts";
import { Editor } from "./editor.tsx";
import type { Peer } from "./presence.ts";
import { Presence } from "./presence.ts";
import { Runs } from "./runs.ts";
import "./canvas.css";

interface Frame {
  type?: string;
  phase?: string;
  revision?: number;
  published_revision?: number | null;
}

/**
 * Replace the server's picture of the canvas by the editor.
 *
 * @example
 * <div data-island="canvas"><script type="application/json" data-boot>…</script>picture</div>
 */
const canvas: Island = (root) => {
  const boot = JSON.parse(requireElement<HTMLScriptElement>(root, "script[type='application/json']").textContent ?? "") as Boot;
  const token = requireElement<HTMLInputElement>(document, "[name=csrfmiddlewaretoken]").value;
  const rest = restWith(token);
  const server: CanvasServer = {
    read: () => rest.get(boot.urls.canvas),
    save: (graph, revision) => rest.put(boot.urls.canvas, { nodes: graph.nodes, edges: graph.edges, revision, confirm_empty: true }),
    publish: (revision) => rest.post(`${boot.urls.canvas}publish/`, { revision }),
  };
  const doc = new CanvasDocument(server, boot.canvas, boot.may_build);
  const runs = new Runs(rest, boot.urls.canvas);
  const peers = new Cell<Peer[]>([]);
  const presence = new Presence(newId(), peers);
  const selected = new Cell<ReadonlySet<string>>(new Set());
  const live = document.createElement("p");
  live.className = "sr-only";
  live.setAttribute("role", "status");
  const box = document.createElement("div");
  box.className = "cv-root";

  const shared: Shared = {
    boot,
    rest,
    doc,
    runs,
    peers,
    selected,
    reveal: () => undefined,
    announce: (text) => {
      live.textContent = text;
    },
  };

  const link = connect({
    path: () => `${boot.urls.socket}?after=${doc.view.revision}`,
    onMessage: (text) => {
      const frame = JSON.parse(text) as Frame;
      if (frame.phase === "presence") presence.receive(frame as Parameters<Presence["receive"]>[0]);
      else if (frame.type === "canvas") doc.follow(frame.revision ?? 0, frame.phase === "state" ? (frame.published_revision ?? null) : undefined);
    },
    onState: (state) => {
      if (state === "open") presence.begin(link);
    },
  });
  const unfollow = selected.subscribe(() => {
    const [only] = selected.value;
    presence.show(selected.value.size === 1 ? (only ?? null) : null);
  });
  const guard = (event: BeforeUnloadEvent): void => {
    if (doc.isUnsaved) event.preventDefault();
  };
  window.addEventListener("beforeunload", guard);

  const leave = (): void => presence.leave();
  window.addEventListener("pagehide", leave);

  root.replaceChildren(box, live);
  const view = createRoot(box);
  view.render(<Editor shared={shared} />);
  let isClosed = false;
  const close = (): void => {
    if (isClosed) return;
    isClosed = true;
    window.removeEventListener("beforeunload", guard);
    window.removeEventListener("pagehide", leave);
    unfollow();
    void doc.save();
    doc.close();
    presence.close();
    runs.close();
    link.close();
    view.unmount();
  };
  root.addEventListener("island-close", close);
  return close;
};

export default canvas;
