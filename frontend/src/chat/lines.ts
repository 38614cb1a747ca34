/** One element for each thing of the conversation, redrawn only when the thing changes. */
import { approval, question } from "./approval.ts";
import { callLine } from "./callline.ts";
import { Caret } from "./caret.ts";
import { childCard } from "./childcard.ts";
import { compactionLine } from "./compactionline.ts";
import type { Desk } from "./desk.ts";
import { act, button, copyText, h, timeOf } from "../lib/dom.ts";
import { errorLine } from "./errorline.ts";
import type { AgentItem, Item, NoteItem } from "./items.ts";
import { personLine } from "./personline.ts";
import { stepsLine } from "./stepsline.ts";
import { StreamingText } from "./streaming.ts";

/** Blocks of an answer that one frame draws: what comes in a burst takes several. */
const BLOCKS = 2;

export interface Line {
  node: HTMLElement;
  update(item: Item): void;
}

/** Which element an item needs. An approval shrinks to a line when it is answered. */
export function formOf(item: Item, desk: Desk): string {
  if (item.kind !== "call") return item.kind;
  if (item.child) return "child";
  return item.state === "awaiting_approval" && desk.mayRun ? "approval" : "call";
}

export function lineOf(item: Item, desk: Desk): Line {
  switch (item.kind) {
    case "user":
      return personLine(item, desk);
    case "agent":
      return agentLine(item, desk);
    case "call":
      if (item.child) return childCard(item, desk);
      return formOf(item, desk) === "approval" ? approval(item, desk) : callLine(item, desk);
    case "steps":
      return stepsLine(item, desk);
    case "question":
      return question(item, desk);
    case "error":
      return errorLine(item, desk);
    case "note":
      return noteLine(item);
    case "compaction":
      return compactionLine(item, desk);
  }
}

function agentLine(first: AgentItem, desk: Desk): Line {
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
        h("span", { text: desk.agent }),
        timeOf(item.at),
        item.model ? h("span", { text: item.model }) : null,
        copy,
        ...agentActs(item, desk),
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

/** What one can do with an answer. The log is never rewritten, so all of it happens in a copy. */
function agentActs(item: AgentItem, desk: Desk): HTMLElement[] {
  const { seq } = item;
  if (!desk.mayRun || seq === null) return [];
  return [
    act("Answer again, in a copy of this chat", "rotate-ccw", () => desk.answerAgain(item)),
    act("Go on from here in a copy of this chat", "git-branch", () => desk.fork(seq)),
  ];
}

function noteLine(item: NoteItem): Line {
  const words = item.link
    ? h("a", { class: "link-text", href: `/chat/${item.link}/`, text: item.text })
    : h("span", { text: item.text });
  const node = h("li", { class: "line is-note" }, words, timeOf(item.at));
  return { node, update: () => undefined };
}
