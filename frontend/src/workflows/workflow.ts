/** The entry of the script of a workflow's page: keeps what the server wrote up to date. */
import { connect } from "../chat/link.ts";
import type { Island } from "../lib/islands.ts";
import { announcement, replaceBody } from "./body.ts";

/** Frames that come together are one look at the page. */
export const GATHER_MS = 120;
/** A look that failed is repeated after so long. */
export const RETRY_MS = 2_000;

/**
 * Hears every frame of the workflow and asks the server for the page's body again.
 *
 * @example
 * <div data-island="workflow" data-socket="/ws/workflows/1/"><div data-body data-seq="4">…</div></div>
 */
const workflow: Island = (root) => {
  const { socket } = root.dataset;
  const first = root.querySelector<HTMLElement>("[data-body]");
  if (!socket || !first) throw new Error("workflow needs data-socket and a [data-body].");
  const lost = root.querySelector<HTMLElement>("[data-lost]");
  const live = root.querySelector<HTMLElement>("[data-announce]");
  let cursor = Number(first.dataset["seq"] ?? 0);
  let timer: number | undefined;
  let asking = false;
  let again = false;

  async function refresh(): Promise<void> {
    timer = undefined;
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      const answer = await fetch(`${location.pathname}?part=body`, { credentials: "same-origin" });
      if (!answer.ok) {
        window.setTimeout(schedule, RETRY_MS);
        return;
      }
      const body = replaceBody(root, await answer.text());
      root.dispatchEvent(new Event("times-shown", { bubbles: true }));
      if (live && body) live.textContent = announcement(live.textContent ?? "", body);
    } catch {
      // The link says when the server is away, and comes back with what was missed.
    } finally {
      asking = false;
      if (again) schedule();
      again = false;
    }
  }

  function schedule(): void {
    timer ??= window.setTimeout(() => void refresh(), GATHER_MS);
  }

  const link = connect({
    url: () => {
      const scheme = location.protocol === "https:" ? "wss:" : "ws:";
      return `${scheme}//${location.host}${socket}?after=${cursor}`;
    },
    onMessage: (text) => {
      const { seq } = JSON.parse(text) as { seq?: number | null };
      if (!seq) return;
      cursor = seq;
      schedule();
    },
    onState: (state) => {
      if (lost) lost.hidden = state !== "lost";
      if (state === "open") schedule();
    },
  });

  return () => {
    window.clearTimeout(timer);
    link.close();
  };
};

export default workflow;
