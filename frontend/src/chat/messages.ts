/** Tracks people's messages from sending to answered, and renders them. */
import { act, button, h, icon, say, timeOf } from "../lib/dom.ts";
import type { StoredEvent } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import { bytes } from "./labels.ts";
import type { Line } from "./renderer.ts";
import {
  type Attached,
  change,
  insert,
  isUser,
  type Item,
  type Receipt,
  type State,
  type Status,
  type UserItem,
} from "./state.ts";

export type OnBusy = "followup" | "steer" | "interrupt";

/** A message sent by this page that the log doesn't have yet. */
export interface OutgoingMessage {
  id: string;
  text: string;
  files: readonly Attached[];
  onBusy: OnBusy;
  at: string;
  state: "sending" | "failed";
  reason: string;
  /** Known after the acknowledgement. */
  seq: number | null;
  /** Whether its event is already in the transcript. */
  found: boolean;
}

/** A queued run, as REST lists it. */
export interface QueueEntry {
  run_id: string;
  text: string;
  message_seqs: number[];
}

/** A queued message as shown. Its run is known shortly after the message. */
export interface Place {
  key: string;
  runId: string | null;
  text: string;
  seqs: number[];
}

/** Add a stored message to the transcript, or to the messages waiting for a run. */
export function takeMessage(state: State, event: StoredEvent, author: string): State {
  const runId = event.processed_run_id ?? null;
  const found = letterOf(state, event);
  const next = found ? markFound(state, found.id) : state;
  const item: UserItem = {
    kind: "user",
    key: event.id,
    order: event.seq,
    seq: event.seq,
    at: event.created_at,
    text: String(event.payload["text"] ?? ""),
    files: filesIn(event.payload["attachments"]),
    merged: false,
    author,
    edited: false,
    receipt: "sent",
    runId,
    reason: "",
  };
  if (runId && state.started.has(runId)) return place(next, item, event.seq, "steered");
  if (event.processed_at && !runId) return place(next, item, event.seq, "answered");
  if (runId) return { ...next, waiting: [...next.waiting, { ...item, receipt: "taken" }] };
  if (isNext(state)) return place(next, item, event.seq, "sent");
  return { ...next, waiting: [...next.waiting, { ...item, receipt: "queued" }] };
}

function filesIn(value: unknown): Attached[] {
  return Array.isArray(value) ? (value as Attached[]) : [];
}

/** Whether a new message would be answered immediately. */
function isNext(state: State): boolean {
  const before = state.items.some((item) => isUser(item) && item.receipt === "sent");
  return state.status === "idle" && !state.waiting.length && !before;
}

/** Find the outgoing message that became this event: by its acknowledgement, else by its text. */
function letterOf(state: State, event: StoredEvent): OutgoingMessage | undefined {
  return (
    state.outbox.find((letter) => letter.seq === event.seq) ??
    state.outbox.find(
      (letter) =>
        letter.seq === null &&
        !letter.found &&
        letter.state === "sending" &&
        letter.text === event.payload["text"],
    )
  );
}

function markFound(state: State, id: string): State {
  const outbox = state.outbox
    .filter((letter) => letter.id !== id || letter.seq === null)
    .map((letter) => (letter.id === id ? { ...letter, found: true } : letter));
  return { ...state, outbox };
}

function place(state: State, item: UserItem, order: number, receipt: Receipt): State {
  return { ...state, items: insert(state.items, { ...item, order, receipt }) };
}

/** Move the messages that a starting run takes to where they are answered. */
export function takeRun(state: State, runId: string, seq: number, reason: string): State {
  let taken = state.waiting.filter((item) => item.runId === runId);
  if (!taken.length && reason === "message" && !state.started.has(runId)) {
    const adopted = adopt(state, runId);
    if (adopted) return { ...adopted, started: new Set([...state.started, runId]) };
    // Until the queue is fetched, assume that the first message is next.
    taken = state.waiting.filter((item) => item.runId === null).slice(0, 1);
  }
  let next: State = { ...state, started: new Set([...state.started, runId]) };
  next = { ...next, waiting: next.waiting.filter((item) => !taken.includes(item)) };
  const merged = taken.length > 1;
  for (const item of taken) next = place(next, { ...item, runId, merged }, seq, "taken");
  return next;
}

/** Set the run of messages already in the transcript. */
function adopt(state: State, runId: string): State | null {
  const items = change(state.items, isUser, (item) =>
    item.receipt === "sent" && item.runId === null ? { ...item, runId, receipt: "taken" } : item,
  );
  return items === state.items ? null : { ...state, items };
}

export function finishRun(state: State, runId: string | null): State {
  const items = change(state.items, isUser, (item) =>
    item.receipt === "taken" && item.runId === runId ? { ...item, receipt: "answered" } : item,
  );
  return items === state.items ? state : { ...state, items };
}

export function editMessage(state: State, seq: number, text: string): State {
  const reword = (item: UserItem): UserItem =>
    item.seq === seq ? { ...item, text, edited: true } : item;
  return {
    ...state,
    waiting: state.waiting.map(reword),
    items: change(state.items, isUser, reword),
  };
}

export function withdrawMessage(state: State, seq: number): State {
  return {
    ...state,
    waiting: state.waiting.filter((item) => item.seq !== seq),
    items: state.items.filter((item) => !(isUser(item) && item.seq === seq)),
  };
}

/**
 * Apply the server's queue, valid for all messages up to `asOf`.
 *
 * A waiting message that is not in it joined an answer or will never be read.
 */
export function applyQueue(state: State, entries: readonly QueueEntry[], asOf: number): State {
  const runs = new Map(entries.flatMap((one) => one.message_seqs.map((seq) => [seq, one.run_id])));
  let next: State = { ...state, queue: entries, waiting: [] };
  for (const item of state.waiting) {
    const seq = item.seq ?? Infinity;
    const runId = runs.get(seq);
    if (runId) next = { ...next, waiting: [...next.waiting, { ...item, runId }] };
    else if (seq > asOf) next = { ...next, waiting: [...next.waiting, item] };
    else next = place(next, item, seq, leftWith(item, state.status));
  }
  return next;
}

/** Settle a message that left the queue without a run starting for it. */
function leftWith(item: UserItem, status: Status): Receipt {
  if (status === "terminated") return "sent";
  // It joined the running answer or one that has ended since.
  return item.receipt !== "taken" && status === "running" ? "steered" : "answered";
}

/** Record an acknowledgement. The message's frame may arrive before or after it. */
export function acknowledge(state: State, id: string, seq: number, runId: string | null): State {
  const outbox =
    seq <= state.seq
      ? state.outbox.filter((letter) => letter.id !== id)
      : state.outbox.map((letter) => (letter.id === id ? { ...letter, seq } : letter));
  const waiting = state.waiting.find((item) => item.seq === seq);
  const next = { ...state, outbox };
  if (!waiting || !runId) return next;
  const rest = state.waiting.filter((item) => item !== waiting);
  if (runId === state.runId) {
    return place({ ...next, waiting: rest }, { ...waiting, runId }, seq, "steered");
  }
  const known = state.waiting.map((item) => (item === waiting ? { ...item, runId } : item));
  return { ...next, waiting: known };
}

export function refuse(state: State, id: string, reason: string): State {
  const outbox = state.outbox.map((letter) =>
    letter.id === id ? { ...letter, state: "failed" as const, reason } : letter,
  );
  return { ...state, outbox };
}

/** Return the queue as shown: in the server's order, then what was just sent. */
export function placesOf(state: State): Place[] {
  const places = new Map<string, Place>();
  const order = new Map(state.queue.map((entry, nth) => [entry.run_id, nth]));
  for (const item of state.waiting) {
    if (item.receipt !== "queued") continue;
    const key = item.runId ?? item.key;
    const known = places.get(key);
    if (known) {
      known.text += `\n\n${item.text}`;
      known.seqs.push(item.seq ?? 0);
    } else {
      places.set(key, { key, runId: item.runId, text: item.text, seqs: [item.seq ?? 0] });
    }
  }
  const nth = (place: Place): number => order.get(place.key) ?? Infinity;
  // Equal positions keep their order.
  return [...places.values()].toSorted((a, b) => (nth(a) === nth(b) ? 0 : nth(a) - nth(b)));
}

// --- The line of a person's message

const RECEIPTS: Record<Receipt, string> = {
  sending: "Sending…",
  failed: "Not sent",
  sent: "Sent",
  queued: "Queued",
  taken: "Read",
  steered: "Added to the running answer",
  answered: "Answered",
};

export function personLine(first: UserItem, host: ChatHost): Line {
  const bubble = h("div", { class: "bubble" });
  const files = h("ul", { class: "files", hidden: true });
  const meta = h("p", { class: "line-meta" });
  const node = h("li", { class: "line is-person" }, files, bubble, meta);
  let item = first;
  let editing = false;
  let attached: readonly Attached[] | undefined;

  function update(next: Item): void {
    if (next.kind !== "user") return;
    item = next;
    node.dataset["receipt"] = item.receipt;
    if (attached !== item.files) {
      attached = item.files;
      files.replaceChildren(...attached.map((file) => fileChip(file, host)));
      files.hidden = attached.length === 0;
    }
    if (editing) return;
    // A changed receipt must not lay out a long text again or clear a selection.
    say(bubble, item.text);
    const known = [item.author ? h("span", { text: item.author }) : null, timeOf(item.at)];
    const edited = item.edited ? h("span", { text: "edited" }) : null;
    meta.replaceChildren(
      ...[...known, edited, receiptOf(item), ...actsOf()].filter((part) => part !== null),
    );
  }

  function actsOf(): HTMLElement[] {
    const { seq } = item;
    if (item.receipt === "failed") {
      const id = item.key.replace("letter-", "");
      return [
        button("Send again", () => host.resend(id), { class: "link-text" }),
        button("Edit", () => host.reword(id, item), { class: "link-text" }),
        button("Discard", () => host.discard(id), { class: "link-text" }),
      ];
    }
    if (!host.mayRun || seq === null) return [];
    const edit = button("Edit and resend in a copy of this chat", begin, {
      class: "btn btn-bare btn-square btn-xs",
      icon: "pencil",
    });
    edit.dataset["editMessage"] = "";
    const fork = act("Continue from here in a copy of this chat", "git-branch", () => host.fork(seq));
    return [edit, fork];
  }

  /** Turn the bubble into an editor. */
  function begin(): void {
    editing = true;
    const area = h("textarea", { class: "bubble-edit", rows: "2", "aria-label": "Your message" });
    area.value = item.text;
    const send = button("Send in a copy", () => void submit(area.value, send), {
      class: "btn btn-sm btn-primary",
    });
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        end();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send.click();
      }
    });
    const note = h("span", { class: "bubble-note", text: "This chat stays unchanged." });
    const cancel = button("Cancel", end, { class: "btn btn-sm btn-quiet" });
    bubble.replaceChildren(area, h("div", { class: "bubble-end" }, note, cancel, send));
    node.toggleAttribute("data-editing", true);
    area.focus();
  }

  async function submit(text: string, send: HTMLButtonElement): Promise<void> {
    if (!text.trim()) return;
    send.disabled = true;
    await host.resendInFork(item, text);
    send.disabled = false;
  }

  function end(): void {
    editing = false;
    node.removeAttribute("data-editing");
    update(item);
    node.querySelector<HTMLElement>("[data-edit-message]")?.focus();
  }
  update(first);
  return { node, update };
}

function receiptOf(item: UserItem): HTMLElement {
  const word = item.receipt === "failed" ? `Not sent: ${item.reason}` : RECEIPTS[item.receipt];
  const text = item.merged ? `${word} together with others` : word;
  return h("span", { class: "receipt", text, title: item.runId ? `Run ${item.runId}` : undefined });
}

function fileChip(file: Attached, host: Pick<ChatHost, "fileUrl">): HTMLElement {
  const link = h(
    "a",
    { class: "file-chip", href: host.fileUrl(file.path), download: file.name, title: file.path },
    icon("paperclip"),
    h("span", { class: "file-name", text: file.name }),
    h("span", { class: "file-size", text: bytes(file.size) }),
  );
  return h("li", {}, link);
}
