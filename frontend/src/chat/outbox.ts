/**
 * Sends messages exactly once over an unreliable connection.
 *
 * A message keeps its id and its transport, because only the same endpoint recognises a repetition.
 * It stays in this browser's storage until the server has it or its author discards it, so a reload
 * loses nothing.
 */
import { type Json, newId, Refused, type Rest } from "../lib/rest.ts";
import type { Action } from "./live-state.ts";
import type { Attached, OnBusy } from "./types.ts";

/** A message sent by this page that the transcript doesn't show yet. */
export interface OutgoingMessage {
  id: string;
  text: string;
  files: readonly Attached[];
  onBusy: OnBusy;
  state: "sending" | "failed";
  /** Whether it was sent while others had to be answered first. */
  isQueued: boolean;
  /** Why sending failed. */
  reason: string;
  /** Known after its frame or its acknowledgement arrived. */
  seq: number | null;
  isAcknowledged: boolean;
}

interface Kept {
  id: string;
  text: string;
  /** Missing in messages stored by older versions of this page. */
  files?: readonly Attached[];
  onBusy: OnBusy;
  way: "socket" | "rest";
  /** Why the server rejected it. */
  refusal?: string;
}

interface Acknowledged {
  event: { seq: number };
}

interface OutboxOptions {
  store: Storage;
  name: string;
  rest: Rest;
  /** REST path for messages. */
  path: string;
  /** Send over the socket; false if it isn't open. */
  send: (message: object) => boolean;
  dispatch: (action: Action) => void;
}

const AGAIN_MS = 5_000;
/** Error codes after which a retry can succeed. */
const PASSING = new Set(["throttled", "stream_unavailable"]);

export class Outbox {
  private kept: Kept[];
  /** Messages being posted; posting one twice at once would be refused. */
  private posting = new Set<string>();
  private timer: number | undefined;
  private readonly options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.options = options;
    this.kept = stored(options);
    for (const one of this.kept) {
      this.show(one);
      if (one.refusal) options.dispatch({ type: "refused", id: one.id, reason: one.refusal });
    }
  }

  /** Send a message and retry until it arrives. */
  send(text: string, onBusy: OnBusy, files: readonly Attached[] = []): void {
    const message = { id: newId(), text, files, onBusy };
    const way = this.options.send(command(message)) ? "socket" : "rest";
    const one: Kept = { ...message, way };
    this.keep(one.id, one);
    this.show(one);
    if (way === "rest") void this.post(one);
  }

  /** Send everything unacknowledged again after the socket opened. */
  flush(): void {
    for (const one of this.kept) {
      if (one.refusal) continue;
      if (one.way === "socket") this.options.send(command(one));
      else void this.post(one);
    }
  }

  acknowledge(id: string, seq: number): void {
    if (!this.find(id)) return;
    this.keep(id, null);
    this.options.dispatch({ type: "acknowledged", id, seq });
  }

  /** Mark a message as rejected, or retry later if the refusal is temporary. */
  refuse(id: string, reason: string, code = ""): boolean {
    const one = this.find(id);
    if (!one) return false;
    if (PASSING.has(code)) {
      this.later();
      return true;
    }
    this.keep(id, { ...one, refusal: reason });
    this.options.dispatch({ type: "refused", id, reason });
    return true;
  }

  /** Resend a rejected message as a new one. */
  again(id: string): void {
    const one = this.find(id);
    this.forget(id);
    if (one) this.send(one.text, one.onBusy, one.files);
  }

  forget(id: string): void {
    this.keep(id, null);
    this.options.dispatch({ type: "dropped", id });
  }

  close(): void {
    window.clearTimeout(this.timer);
  }

  private async post(one: Kept): Promise<void> {
    if (this.posting.has(one.id)) return;
    this.posting.add(one.id);
    const body = { ...payloadOf(one), on_busy: one.onBusy };
    try {
      const answer = await this.options.rest.post<Acknowledged>(this.options.path, body, one.id);
      this.acknowledge(one.id, answer.event.seq);
    } catch (fault) {
      if (fault instanceof Refused && isFinal(fault)) this.refuse(one.id, fault.message);
      else this.later();
    } finally {
      this.posting.delete(one.id);
    }
  }

  private later(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.flush(), AGAIN_MS);
  }

  private show(one: Kept): void {
    const { id, text, onBusy, files = [] } = one;
    const facts = { state: "sending", isQueued: false, reason: "", seq: null, isAcknowledged: false } as const;
    this.options.dispatch({ type: "sending", message: { id, text, onBusy, files, ...facts } });
  }

  private find(id: string): Kept | undefined {
    return this.kept.find((one) => one.id === id);
  }

  /** Store or remove one message. Other tabs share the same storage entry. */
  private keep(id: string, one: Kept | null): void {
    const { store, name } = this.options;
    const put = (all: readonly Kept[]): Kept[] => [
      ...all.filter((other) => other.id !== id),
      ...(one ? [one] : []),
    ];
    this.kept = put(this.kept);
    try {
      const all = put(stored(this.options));
      if (all.length) store.setItem(name, JSON.stringify(all));
      else store.removeItem(name);
    } catch {
      // Without storage, only a reload can lose messages.
    }
  }
}

/** Whether a retry is pointless. */
function isFinal(fault: Refused): boolean {
  const passing = [408, 425, 429].includes(fault.status) || fault.code === "idempotency_in_flight";
  return fault.status < 500 && !passing;
}

function command(message: Omit<Kept, "way">): object {
  const { id, onBusy } = message;
  return { type: "user.message", payload: payloadOf(message), id, on_busy: onBusy };
}

function payloadOf({ text, files }: Pick<Kept, "text" | "files">): Json {
  return files?.length ? { text, attachments: files } : { text };
}

function stored(options: OutboxOptions): Kept[] {
  try {
    const found: unknown = JSON.parse(options.store.getItem(options.name) ?? "[]");
    return Array.isArray(found) ? (found as Kept[]) : [];
  } catch {
    return [];
  }
}
