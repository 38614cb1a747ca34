/** Renders transcript items as lines and updates only those that changed. */
import { act, button, copyText, h, timeOf } from "../lib/dom.ts";
import { approval, question } from "./approval.ts";
import { callLine, stepsLine } from "./calls.ts";
import { compactionLine } from "./compactions.ts";
import type { ChatHost } from "./host.ts";
import { personLine } from "./messages.ts";
import type { AgentItem, ErrorItem, Item, NoteItem } from "./state.ts";
import { Caret, StreamingText } from "./streaming.ts";
import { childCard } from "./subagents.ts";

/** Blocks rendered per animation frame; a burst takes several frames. */
const BLOCKS = 2;

export interface Line {
  node: HTMLElement;
  update(item: Item): void;
}

/** Return the kind of line an item needs. An answered approval becomes a call line. */
export function formOf(item: Item, host: ChatHost): string {
  if (item.kind !== "call") return item.kind;
  if (item.child) return "child";
  return item.state === "awaiting_approval" && host.mayRun ? "approval" : "call";
}

export function lineOf(item: Item, host: ChatHost): Line {
  switch (item.kind) {
    case "user":
      return personLine(item, host);
    case "agent":
      return agentLine(item, host);
    case "call":
      if (item.child) return childCard(item, host);
      return formOf(item, host) === "approval" ? approval(item, host) : callLine(item, host);
    case "steps":
      return stepsLine(item, host);
    case "question":
      return question(item, host);
    case "error":
      return errorLine(item, host);
    case "note":
      return noteLine(item);
    case "compaction":
      return compactionLine(item, host);
  }
}

function agentLine(first: AgentItem, host: ChatHost): Line {
  const said = h("div", { class: "said" });
  const meta = h("p", { class: "line-meta" });
  const node = h("li", { class: "line is-agent" }, said, meta);
  const text = new StreamingText(said);
  const caret = new Caret();
  let drawn: AgentItem | undefined;
  let frame = 0;

  function update(item: Item): void {
    if (item.kind !== "agent") return;
    window.cancelAnimationFrame(frame);
    const begun = said.firstChild !== null && !document.hidden;
    const isWhole = text.update(item.text, begun ? BLOCKS : Infinity);
    if (!isWhole) frame = window.requestAnimationFrame(() => goOn(item));
    const isWriting = item.streaming || !isWhole;
    if (!isWriting) text.settle();
    node.toggleAttribute("data-streaming", isWriting);
    caret.move(isWriting ? said : null);
    if (isWriting || drawn?.seq === item.seq) return;
    drawn = item;
    const copy = button("Copy", () => void copyText(item.text, copy), {
      class: "btn btn-bare btn-square btn-xs",
      icon: "copy",
    });
    meta.replaceChildren(
      ...[
        h("span", { text: host.agent }),
        timeOf(item.at),
        item.model ? h("span", { text: item.model }) : null,
        copy,
        ...agentActs(item, host),
      ].filter((part) => part !== null),
    );
  }
  function goOn(item: AgentItem): void {
    update(item);
    node.dispatchEvent(new Event("line-grown", { bubbles: true }));
  }
  update(first);
  return { node, update };
}

/** Return the buttons of an answer. The log is never rewritten, so each works in a fork. */
function agentActs(item: AgentItem, host: ChatHost): HTMLElement[] {
  const { seq } = item;
  if (!host.mayRun || seq === null) return [];
  return [
    act("Regenerate in a copy of this chat", "rotate-ccw", () => host.regenerateInFork(item)),
    act("Continue from here in a copy of this chat", "git-branch", () => host.fork(seq)),
  ];
}

function noteLine(item: NoteItem): Line {
  const words = item.link
    ? h("a", { class: "link-text", href: `/chat/${item.link}/`, text: item.text })
    : h("span", { text: item.text });
  const node = h("li", { class: "line is-note" }, words, timeOf(item.at));
  return { node, update: () => undefined };
}

// --- Errors

/** Where to fix an error. Keep in step with `sessions_app/pages/transcript.py`. */
const HELP: Record<string, [words: string, href: string]> = {
  budget_reached: ["Raise the budget", "/settings/budgets/"],
  out_of_credits: ["Add credits", "/settings/budgets/"],
  provider_not_configured: ["Open settings", "/settings/providers/"],
  provider_unauthorized: ["Open settings", "/settings/providers/"],
};

export function errorLine(first: ErrorItem, host: ChatHost): Line {
  const words = h("p");
  const box = h("div", { class: "flash is-error" }, words);
  const node = h("li", { class: "line is-trouble" }, box);
  const help = HELP[first.code];
  let retry: HTMLButtonElement | undefined;
  if (help) box.append(h("a", { class: "btn btn-sm btn-quiet", href: help[1], text: help[0] }));

  function update(item: Item): void {
    if (item.kind !== "error") return;
    words.textContent = item.message;
    retry?.remove();
    const { runId } = item;
    // After adding credits or a key, the same run may succeed.
    const worth = item.retryable || (help !== undefined && item.latest);
    if (!worth || !runId || !host.mayRun) return;
    retry = button("Retry", () => void again(runId), { class: "btn btn-sm btn-quiet" });
    box.append(retry);
  }
  async function again(runId: string): Promise<void> {
    retry?.setAttribute("disabled", "");
    try {
      await host.retry(runId);
    } catch (fault) {
      words.textContent = `${words.textContent} ${(fault as Error).message}`;
      retry?.removeAttribute("disabled");
    }
  }
  update(first);
  return { node, update };
}

// --- The list of lines: nodes are reused and moved only if they must be

interface Drawn {
  item: Item;
  form: string;
  line: Line;
}

export class LineList {
  private drawn = new Map<string, Drawn>();
  private readonly list: HTMLElement;
  private readonly host: ChatHost;

  constructor(list: HTMLElement, host: ChatHost) {
    this.list = list;
    this.host = host;
    list.replaceChildren();
  }

  draw(items: readonly Item[]): void {
    const next = new Map<string, Drawn>();
    for (const item of items) next.set(item.key, this.one(item));
    for (const [key, { line }] of this.drawn) {
      if (next.get(key)?.line !== line) line.node.remove();
    }
    this.drawn = next;
    let at: ChildNode | null = this.list.firstChild;
    for (const { line } of next.values()) {
      if (line.node === at) at = at.nextSibling;
      else this.list.insertBefore(line.node, at);
    }
  }

  private one(item: Item): Drawn {
    const known = this.drawn.get(item.key);
    const form = formOf(item, this.host);
    if (known?.form !== form) return { item, form, line: lineOf(item, this.host) };
    if (known.item !== item) known.line.update(item);
    return { item, form, line: known.line };
  }
}

// --- Scrolling: follows the newest line while the reader is at the end

const NEAR = 48;

export class Scroll {
  private atEnd = true;
  private readonly box: HTMLElement;
  private readonly jump: HTMLElement;
  private readonly target: EventTarget;

  /** On a desktop `page` scrolls, on a phone the document does. */
  constructor(page: HTMLElement, jump: HTMLElement) {
    const own = getComputedStyle(page).overflowY;
    const isOwn = own === "auto" || own === "scroll";
    this.box = isOwn ? page : (document.scrollingElement as HTMLElement) ?? page;
    this.target = isOwn ? page : window;
    this.jump = jump;
    this.target.addEventListener("scroll", this.look, { passive: true });
    jump.addEventListener("click", this.toEnd);
  }

  private look = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    this.atEnd = scrollHeight - scrollTop - clientHeight <= NEAR;
    this.jump.hidden = this.atEnd;
  };

  toEnd = (): void => {
    this.box.scrollTop = this.box.scrollHeight;
    this.atEnd = true;
    this.jump.hidden = true;
  };

  /** Scroll to the end after drawing if the reader was there. */
  follow(): void {
    if (this.atEnd) this.box.scrollTop = this.box.scrollHeight;
    else this.look();
  }

  /** Draw above the visible part without moving it on the screen. */
  hold(draw: () => void): void {
    const before = this.box.scrollHeight - this.box.scrollTop;
    draw();
    this.box.scrollTop = this.box.scrollHeight - before;
  }

  close(): void {
    this.target.removeEventListener("scroll", this.look);
    this.jump.removeEventListener("click", this.toEnd);
  }
}
