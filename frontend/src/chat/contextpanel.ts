/** The context in the inspector: what the model sees, by part. The server writes it; this renews it. */
import { fetchPart } from "../lib/part.ts";
import { isCompaction } from "./items.ts";
import type { State } from "./state.ts";

/** After the last change, so that a quick exchange asks once. */
const PAUSE_MS = 400;

/**
 * @example
 * <section data-context data-url="/chat/…/context/?panel=1"><div data-context-body></div></section>
 */
export class ContextPanel {
  private seen = "";
  private timer: number | undefined;
  private readonly asking = new AbortController();
  private readonly root: HTMLElement;
  private readonly onCount: (tokens: number, window: number) => void;

  /** `onCount` hears how many tokens are used of how many. */
  constructor(root: HTMLElement, onCount: (tokens: number, window: number) => void = () => undefined) {
    this.root = root;
    this.onCount = onCount;
  }

  /** Look again whenever a run has ended or a compaction came or went. */
  follow(state: State): void {
    if (state.status === "running") return;
    const compactions = state.items.filter(isCompaction);
    const now = JSON.stringify([state.seq, compactions.length]);
    if (now === this.seen) return;
    this.seen = now;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.renew(), PAUSE_MS);
  }

  async renew(): Promise<void> {
    const url = this.root.dataset["url"];
    if (!url) return;
    try {
      this.put(await fetchPart(url, { signal: this.asking.signal }));
    } catch {
      // What was last known stays; the next change asks again.
    }
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.asking.abort();
  }

  /** Put the server's words in place, with the same parts open as before. */
  private put(fresh: Document): void {
    const body = this.root.querySelector("[data-context-body]");
    if (!body) return;
    const open = new Set(
      [...body.querySelectorAll<HTMLElement>("details[open]")].map((one) => one.dataset["part"]),
    );
    for (const part of fresh.querySelectorAll<HTMLDetailsElement>("details[data-part]")) {
      part.open = open.has(part.dataset["part"]);
    }
    const counted = fresh.querySelector<HTMLElement>("[data-used]")?.dataset;
    body.replaceChildren(...fresh.body.childNodes);
    body.dispatchEvent(new Event("times-shown", { bubbles: true }));
    if (counted) this.onCount(Number(counted["used"]), Number(counted["window"]));
  }
}
