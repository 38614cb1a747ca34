/** Shows the status of the session, its context usage and the connection. */
import { requireElement, say } from "../lib/dom.ts";
import { fetchPart } from "../lib/pages.ts";
import type { SocketState } from "../lib/socket.ts";
import type { ConversationState, Status } from "./types.ts";

/** A connection that returns within this time isn't mentioned. */
const QUIET_MS = 1_500;

export class StatusDisplay {
  /** The status that was announced last. A page that opens on a busy agent announces that. */
  private status: Status = "idle";
  private timer: number | undefined;
  private readonly lamp: HTMLElement;
  private readonly title: Element | null;
  private readonly live: HTMLElement;
  private readonly setLink: (words: string) => void;

  constructor(root: ParentNode, first: ConversationState, setLink: (words: string) => void) {
    // If a page has several chats, each has its own status.
    this.lamp = root.querySelector("[data-chat-status]") ?? requireElement(document, "[data-chat-status]");
    this.title = root.querySelector("[data-chat-status]") ? null : document.querySelector("[data-chat-title]");
    this.live = requireElement(root, "[data-announce]");
    this.setLink = setLink;
    this.show(first);
  }

  /** Show what the server tells. */
  show(state: ConversationState): void {
    this.lamp.className = `state ${state.status_lamp}`;
    say(this.lamp, state.status_label);
    if (this.title && state.title) say(this.title, state.title);
    for (const node of document.querySelectorAll("[data-chat-tokens]")) say(node, state.tokens);
    for (const node of document.querySelectorAll("[data-chat-events]")) say(node, String(state.last_seq));
  }

  /** Announce a change of the status, which frames report before the server's label arrives. */
  follow(status: Status): void {
    if (status !== this.status) this.announce(this.status, status);
    this.status = status;
  }

  /** Announce status changes to screen readers. The text itself is never announced. */
  private announce(before: Status, now: Status): void {
    if (now === "running") say(this.live, "Answering");
    else if (now === "requires_action") say(this.live, "A tool call needs your approval");
    else if (now === "rescheduling") say(this.live, "Retrying");
    else if (before === "running") say(this.live, "Answer finished");
    else say(this.live, "");
  }

  link(state: SocketState, code: number): void {
    if (state === "open") {
      window.clearTimeout(this.timer);
      this.timer = undefined;
      this.setLink("");
    } else if (state === "ended") {
      window.clearTimeout(this.timer);
      this.setLink(code === 4401 ? "Signed out. Reload to sign in again." : "This chat no longer exists.");
    } else if (this.timer === undefined) {
      this.timer = window.setTimeout(() => this.setLink(words()), QUIET_MS);
    }
  }

  close(): void {
    window.clearTimeout(this.timer);
  }
}

function words(): string {
  return navigator.onLine ? "Connecting…" : "You're offline. Messages are sent when you're back.";
}

// --- The context meter, a thin bar that opens the inspector

/**
 * @example
 * <button data-meter><progress max="100"></progress><span data-meter-text></span></button>
 */
export class Meter {
  private percent: number | null = null;
  private usage = "";
  private readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
    root.addEventListener("click", open);
  }

  /** Show the tokens and the cost of the session. */
  show(usage: string): void {
    this.usage = usage;
    const text = this.root.querySelector("[data-meter-text]");
    const full = this.percent === null ? "" : `${this.percent} % of context`;
    if (text) say(text, [full, usage].filter(Boolean).join(" · "));
    this.root.hidden = !full && !usage;
  }

  /** Update the meter with the server's count. */
  fill(tokens: number, window: number): void {
    if (!(window > 0)) return;
    this.percent = Math.min(100, Math.round((tokens / window) * 100));
    const bar = this.root.querySelector("progress");
    if (bar) bar.value = this.percent;
    this.root.toggleAttribute("data-full", this.percent >= 80);
    this.show(this.usage);
  }

  close(): void {
    this.root.removeEventListener("click", open);
  }
}

/** Open the inspector at the context. */
function open(): void {
  const inspector = document.querySelector<HTMLElement>("#inspector");
  if (inspector?.hasAttribute("data-closed")) {
    document.querySelector<HTMLElement>("[data-inspector]")?.click();
  }
  const heading = document.querySelector<HTMLElement>("#context-title");
  heading?.scrollIntoView?.({ block: "nearest" });
  heading?.focus();
}

// --- The context panel: rendered by the server, fetched again when it changes

/** Wait for a pause, so that a quick exchange causes one request. */
const PAUSE_MS = 400;

/**
 * @example
 * <section data-context data-url="/chat/…/context/?panel=1"><div data-context-body></div></section>
 */
export class ContextPanel {
  private seen = -1;
  private timer: number | undefined;
  private readonly asking = new AbortController();
  private readonly root: HTMLElement;
  private readonly onCount: (tokens: number, window: number) => void;

  /** `onCount` receives the used and the available tokens. */
  constructor(root: HTMLElement, onCount: (tokens: number, window: number) => void = () => undefined) {
    this.root = root;
    this.onCount = onCount;
  }

  /** Fetch again when a run ended or something happened between runs. */
  follow(status: Status, seq: number): void {
    if (status === "running" || seq === this.seen) return;
    this.seen = seq;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.renew(), PAUSE_MS);
  }

  async renew(): Promise<void> {
    const url = this.root.dataset["url"];
    if (!url) return;
    try {
      this.put(await fetchPart(url, { signal: this.asking.signal }));
    } catch {
      // Keep the last known content; the next change tries again.
    }
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.asking.abort();
  }

  /** Replace the content and keep open parts open. */
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
