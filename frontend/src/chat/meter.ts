/** How full the context is, and what the session has used: one thin line that opens the inspector. */
import { say } from "../lib/dom.ts";
import { money, thousands } from "./notes.ts";
import type { State } from "./state.ts";

/**
 * @example
 * <button data-meter><progress max="100"></progress><span data-meter-words></span></button>
 */
export class Meter {
  private percent: number | null = null;
  private drawn: State | null = null;
  private readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
    root.addEventListener("click", open);
  }

  draw(state: State): void {
    this.drawn = state;
    const words = this.root.querySelector("[data-meter-words]");
    const full = this.percent === null ? "" : `${this.percent} % of the context`;
    const used = state.tokens ? `${thousands(state.tokens)} tokens used` : "";
    if (words) say(words, [full, used, money(state.cost)].filter(Boolean).join(" · "));
    this.root.hidden = !full && !used;
  }

  /** The server has counted the context anew. */
  fill(tokens: number, window: number): void {
    if (!(window > 0)) return;
    this.percent = Math.min(100, Math.round((tokens / window) * 100));
    const bar = this.root.querySelector("progress");
    if (bar) bar.value = this.percent;
    this.root.toggleAttribute("data-full", this.percent >= 80);
    if (this.drawn) this.draw(this.drawn);
  }

  close(): void {
    this.root.removeEventListener("click", open);
  }
}

/** Shows the context in the inspector, whichever way that is open or not. */
function open(): void {
  const inspector = document.querySelector<HTMLElement>("#inspector");
  if (inspector?.hasAttribute("data-closed")) {
    document.querySelector<HTMLElement>("[data-inspector]")?.click();
  }
  const heading = document.querySelector<HTMLElement>("#context-title");
  heading?.scrollIntoView?.({ block: "nearest" });
  heading?.focus();
}
