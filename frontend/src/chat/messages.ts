/** Messages of people: on their way, in the queue, taken by a run, answered. */
import type { StoredEvent } from "./frames.ts";
import {
  change,
  insert,
  isUser,
  type Attached,
  type Receipt,
  type Status,
  type UserItem,
} from "./items.ts";
import type { State } from "./state.ts";

export type OnBusy = "followup" | "steer" | "interrupt";

/** A message that this page sends, until the log has it. */
export interface Letter {
  id: string;
  text: string;
  files: readonly Attached[];
  onBusy: OnBusy;
  at: string;
  state: "sending" | "failed";
  reason: string;
  /** Known from the acknowledgement. */
  seq: number | null;
  /** Its event is on the screen already. */
  found: boolean;
}

/** One place in the queue, as REST lists it. */
export interface QueueEntry {
  run_id: string;
  text: string;
  message_seqs: number[];
}

/** One place in the queue, as the page shows it. A run is known a moment after its message. */
export interface Place {
  key: string;
  runId: string | null;
  text: string;
  seqs: number[];
}

/** A stored message: it joins the conversation at once, or waits for its run. */
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

/** Whether a message that comes now is answered at once: nothing runs and nothing is before it. */
function isNext(state: State): boolean {
  const before = state.items.some((item) => isUser(item) && item.receipt === "sent");
  return state.status === "idle" && !state.waiting.length && !before;
}

/** The letter that became this event: by its acknowledgement, else the oldest with the same text. */
function letterOf(state: State, event: StoredEvent): Letter | undefined {
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

/** A run starts: the messages that it takes stand here, where they are answered. */
export function takeRun(state: State, runId: string, seq: number, reason: string): State {
  let taken = state.waiting.filter((item) => item.runId === runId);
  if (!taken.length && reason === "message" && !state.started.has(runId)) {
    const adopted = adopt(state, runId);
    if (adopted) return { ...adopted, started: new Set([...state.started, runId]) };
    // The server was not asked yet whose turn it is; it is the first one's.
    taken = state.waiting.filter((item) => item.runId === null).slice(0, 1);
  }
  let next: State = { ...state, started: new Set([...state.started, runId]) };
  next = { ...next, waiting: next.waiting.filter((item) => !taken.includes(item)) };
  const merged = taken.length > 1;
  for (const item of taken) next = place(next, { ...item, runId, merged }, seq, "taken");
  return next;
}

/** The run of messages that are in the conversation already because nothing was before them. */
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
 * What the server says of the queue, true for all messages up to `asOf`.
 *
 * A waiting message that is in no place of it joined an answer, or nothing will read it.
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

/** What became of a message that waits no more, though no run was seen to begin with it. */
function leftWith(item: UserItem, status: Status): Receipt {
  if (status === "terminated") return "sent";
  // It joined the running answer, or one that has ended since.
  return item.receipt !== "taken" && status === "running" ? "steered" : "answered";
}

/** The server has the message: it will come, or has come, as a frame. */
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

/** The queue as it is shown: places in the server's order, then what has just been sent. */
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
  // Equal places keep the order in which they came.
  return [...places.values()].toSorted((a, b) => (nth(a) === nth(b) ? 0 : nth(a) - nth(b)));
}
