/** The state as the page shows it: what is stored, the draft, what is on its way. */
import type { Draft } from "./draft.ts";
import { isCall, type AgentItem, type Item, type Status, type UserItem } from "./items.ts";
import type { Letter } from "./messages.ts";
import { folded } from "./steps.ts";
import type { State } from "./state.ts";

export function isBusy(status: Status): boolean {
  return status === "running" || status === "rescheduling" || status === "requires_action";
}

/** Whether it waits for other sessions alone, and for no person. */
export function waitsForChildren(state: State): boolean {
  if (state.status !== "requires_action" || state.questions.length) return false;
  const open = state.items.filter(isCall).filter((call) => !call.result);
  return open.length > 0 && open.every((call) => call.child?.state === "running");
}

/** Everything, in its order. */
export function shown(state: State): Item[] {
  const items: Item[] = [...folded(state.items, state.status), ...state.questions];
  if (state.draft?.text) items.push(draftItem(state.draft));
  for (const letter of state.outbox) {
    if (!letter.found && !(letter.state === "sending" && waits(state, letter))) {
      items.push(letterItem(letter));
    }
  }
  return items;
}

/** Whether a message on its way will stand in the queue, not in the conversation. */
export function waits(state: State, letter: Letter): boolean {
  return letter.onBusy === "followup" && (isBusy(state.status) || state.waiting.length > 0);
}

function draftItem(draft: Draft): AgentItem {
  return {
    kind: "agent",
    key: draft.eventId,
    order: Infinity,
    seq: null,
    at: "",
    text: draft.text,
    model: "",
    streaming: true,
  };
}

function letterItem(letter: Letter): UserItem {
  return {
    kind: "user",
    key: `letter-${letter.id}`,
    order: Infinity,
    seq: null,
    at: letter.at,
    text: letter.text,
    files: letter.files,
    merged: false,
    author: "",
    edited: false,
    receipt: letter.state,
    runId: null,
    reason: letter.reason,
  };
}
