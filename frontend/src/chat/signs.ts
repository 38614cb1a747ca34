/** What the page says of the session as a whole: its status, its cost, the connection. */
import { need, say } from "../lib/dom.ts";
import { isUser, type Item, type Status } from "./items.ts";
import type { LinkState } from "../lib/link.ts";
import { thousands } from "./notes.ts";
import { waitsForChildren } from "./shown.ts";
import type { State } from "./state.ts";

const STATUSES: Record<Status, [lamp: string, word: string]> = {
  idle: ["", "Idle"],
  running: ["is-running", "Working"],
  rescheduling: ["is-waiting", "Trying again"],
  requires_action: ["is-waiting", "Needs you"],
  terminated: ["", "Archived"],
};
const BELOW: [lamp: string, word: string] = ["is-running", "Sub-agent at work"];
/** A connection that comes back by itself at once is not worth a word. */
const QUIET_MS = 1_500;
const TITLE = 80;

export class Signs {
  private status: Status = "idle";
  private timer: number | undefined;
  private readonly lamp: HTMLElement;
  private readonly live: HTMLElement;
  private readonly setLink: (words: string) => void;

  constructor(root: ParentNode, first: State, setLink: (words: string) => void) {
    // Where several talks stand on one page, each has its own lamp.
    this.lamp = root.querySelector("[data-chat-status]") ?? need(document, "[data-chat-status]");
    this.live = need(root, "[data-announce]");
    this.setLink = setLink;
    this.draw(first);
  }

  draw(state: State): void {
    const [look, word] = waitsForChildren(state) ? BELOW : STATUSES[state.status];
    this.lamp.className = `state ${look}`;
    say(this.lamp, word);
    for (const node of document.querySelectorAll("[data-chat-tokens]")) {
      say(node, thousands(state.tokens));
    }
    for (const node of document.querySelectorAll("[data-chat-events]")) say(node, String(state.seq));
    if (state.status !== this.status) this.announce(this.status, state.status);
    this.status = state.status;
  }

  /** A session without a title is called by its first message, as the server will call it. */
  name(items: readonly Item[]): void {
    const first = items.find(isUser)?.text.split("\n", 1)[0]?.trim();
    const title = document.querySelector("[data-chat-title]");
    if (first && title) say(title, first.length <= TITLE ? first : `${first.slice(0, TITLE)}…`);
  }

  /** For those who do not see the lamp. The text itself is never announced word by word. */
  private announce(before: Status, now: Status): void {
    if (now === "running") say(this.live, "Answering");
    else if (now === "requires_action") say(this.live, "A call needs your approval");
    else if (now === "rescheduling") say(this.live, "Trying again");
    else if (before === "running") say(this.live, "Answer finished");
    else say(this.live, "");
  }

  link(state: LinkState, code: number): void {
    if (state === "open") {
      window.clearTimeout(this.timer);
      this.timer = undefined;
      this.setLink("");
    } else if (state === "ended") {
      window.clearTimeout(this.timer);
      this.setLink(code === 4401 ? "Signed out. Reload to sign in again." : "This session is gone.");
    } else if (this.timer === undefined) {
      this.timer = window.setTimeout(() => this.setLink(words()), QUIET_MS);
    }
  }

  close(): void {
    window.clearTimeout(this.timer);
  }
}

function words(): string {
  return navigator.onLine ? "Connecting…" : "Offline. It goes on when you are back.";
}
