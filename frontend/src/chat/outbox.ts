/**
 * Sends messages exactly once, whatever happens to the connection meanwhile.
 *
 * A message keeps its id and its way: what was handed to a socket goes over a socket again, what
 * went over REST goes over REST, as only the same door recognises a repetition. It stays in this
 * browser's store until the server has it, so that a reload loses nothing.
 */
import type { Attached } from "./items.ts";
import type { Letter, OnBusy } from "./messages.ts";
import type { Json } from "../lib/json.ts";
import { newId, Refused, type Rest } from "../lib/rest.ts";
import type { Action } from "./state.ts";

interface Kept {
  id: string;
  text: string;
  /** Missing in what an older page has kept. */
  files?: readonly Attached[];
  onBusy: OnBusy;
  at: string;
  way: "socket" | "rest";
}

interface Acknowledged {
  event: { seq: number };
  run_id: string | null;
}

interface OutboxOptions {
  store: Storage;
  name: string;
  rest: Rest;
  /** Where REST takes messages. */
  path: string;
  /** Hands a message to the socket, if it is open. */
  send: (message: object) => boolean;
  dispatch: (action: Action) => void;
}

const AGAIN_MS = 5_000;

export class Outbox {
  private kept: Kept[];
  private refused = new Map<string, Kept>();
  /** What REST is being told now: a second time meanwhile it would be refused. */
  private posting = new Set<string>();
  private timer: number | undefined;
  private readonly options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.options = options;
    this.kept = stored(options);
    for (const one of this.kept) this.show(one);
  }

  /** Take a message and see to it that it arrives. */
  send(text: string, onBusy: OnBusy, files: readonly Attached[] = []): void {
    const letter = { id: newId(), text, files, onBusy, at: new Date().toISOString() };
    const way = this.options.send(command(letter)) ? "socket" : "rest";
    const one: Kept = { ...letter, way };
    this.keep([...this.kept, one]);
    this.show(one);
    if (way === "rest") void this.post(one);
  }

  /** The socket is open, perhaps again: say what it has not acknowledged. */
  flush(): void {
    for (const one of this.kept) {
      if (one.way === "socket") this.options.send(command(one));
      else void this.post(one);
    }
  }

  acknowledge(id: string, seq: number, runId: string | null): void {
    if (!this.kept.some((one) => one.id === id)) return;
    this.keep(this.kept.filter((one) => one.id !== id));
    this.options.dispatch({ type: "acked", id, seq, runId });
  }

  /** The server does not want it. The person decides what becomes of it. */
  refuse(id: string, reason: string): boolean {
    const one = this.kept.find((kept) => kept.id === id);
    if (!one) return false;
    this.refused.set(id, one);
    this.keep(this.kept.filter((kept) => kept !== one));
    this.options.dispatch({ type: "refused", id, reason });
    return true;
  }

  /** Send a refused message once more, as a new one. */
  again(id: string): void {
    const one = this.refused.get(id);
    this.forget(id);
    if (one) this.send(one.text, one.onBusy, one.files);
  }

  forget(id: string): void {
    this.refused.delete(id);
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
      this.acknowledge(one.id, answer.event.seq, answer.run_id);
    } catch (fault) {
      if (fault instanceof Refused && isFinal(fault)) this.refuse(one.id, fault.message);
      else this.later();
    } finally {
      this.posting.delete(one.id);
    }
  }

  private later(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      for (const one of this.kept) if (one.way === "rest") void this.post(one);
    }, AGAIN_MS);
  }

  private show(one: Kept): void {
    const letter: Letter = { ...one, files: one.files ?? [], state: "sending", reason: "", seq: null, found: false };
    this.options.dispatch({ type: "sending", letter });
  }

  private keep(kept: Kept[]): void {
    this.kept = kept;
    const { store, name } = this.options;
    try {
      if (kept.length) store.setItem(name, JSON.stringify(kept));
      else store.removeItem(name);
    } catch {
      // A full or forbidden store costs only the safety net under a reload.
    }
  }
}

/** Another try may end otherwise when it was too early, one too many, or the first still runs. */
function isFinal(fault: Refused): boolean {
  const passing = [408, 425, 429].includes(fault.status) || fault.code === "idempotency_in_flight";
  return fault.status < 500 && !passing;
}

function command(letter: Omit<Kept, "way">): object {
  const { id, onBusy } = letter;
  return { type: "user.message", payload: payloadOf(letter), id, on_busy: onBusy };
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
