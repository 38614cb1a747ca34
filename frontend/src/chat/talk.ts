/** One session as this page follows it: its state, its socket, and everything one can ask of it. */
import { outputText } from "./calls.ts";
import { Commands } from "./commands.ts";
import type { Said } from "./desk.ts";
import { Family } from "./family.ts";
import type { Json } from "../lib/json.ts";
import { read, type Frame, type StoredEvent } from "./frames.ts";
import type { Attached } from "./items.ts";
import { connect, type Link, type LinkState } from "../lib/link.ts";
import type { OnBusy } from "./messages.ts";
import { framesOf, pageBefore, stateOf, withPast, type Opening } from "./opening.ts";
import { Outbox } from "./outbox.ts";
import { Queue } from "./queue.ts";
import { Refused, type Rest } from "../lib/rest.ts";
import type { Action, State } from "./state.ts";
import { reduce } from "./transcript.ts";

interface Snapshot {
  id: string;
  summary: string;
}

interface Execution {
  id: string;
  tool_use_id: string;
}

interface TalkOptions {
  opening: Opening;
  rest: Rest;
  store: Storage;
  onChange: () => void;
  onLink: (state: LinkState, code: number) => void;
}

export class Talk {
  state: State;
  /** The first event that is known here. */
  firstSeq: number;
  readonly family: Family;
  readonly queue: Queue;
  private frames: Frame[];
  private readonly link: Link;
  private readonly outbox: Outbox;
  private readonly commands: Commands;
  private readonly options: TalkOptions;

  constructor(options: TalkOptions) {
    const { opening, rest, store } = options;
    this.options = options;
    this.state = stateOf(opening);
    this.firstSeq = opening.first_seq;
    this.frames = opening.frames.filter((frame) => frame.seq !== null);
    // First of all: what the outbox has kept is told at once.
    this.queue = new Queue({
      rest,
      path: `${opening.api}queue/`,
      now: () => this.state,
      dispatch: (action) => this.dispatch(action),
    });
    const send = (message: object): boolean => this.link?.send(message) ?? false;
    this.outbox = new Outbox({
      store,
      name: `chat-outbox:${opening.session_id}`,
      rest,
      path: `${opening.api}messages/`,
      send,
      dispatch: (action) => this.dispatch(action),
    });
    this.family = new Family({ opening, rest, dispatch: (action) => this.dispatch(action) });
    this.commands = new Commands(send, rest, `${opening.api}events/`);
    this.link = connect({
      path: () => `/ws/sessions/${opening.session_id}/?after=${this.state.seq}`,
      onMessage: (text) => this.hear(text),
      onState: (state, code) => this.linked(state, code),
    });
  }

  send(text: string, onBusy: OnBusy, files: readonly Attached[] = []): void {
    this.outbox.send(text, onBusy, files);
  }

  resend(id: string): void {
    this.outbox.again(id);
  }

  forget(id: string): void {
    this.outbox.forget(id);
  }

  /** Stop what runs now: a stop that comes late must not end the answer after it. */
  async stop(): Promise<void> {
    const { runId } = this.state;
    try {
      await this.commands.give("user.interrupt", runId ? { run_id: runId } : {});
    } catch (fault) {
      // What is over needs no stop.
      if (!(fault instanceof Refused && fault.code === "run_over")) throw fault;
    }
  }

  answer(callId: string, said: Said): Promise<void> {
    return this.commands.give("user.tool_confirmation", { tool_use_id: callId, ...said });
  }

  async retry(runId: string): Promise<void> {
    await this.options.rest.post(`${this.options.opening.runs}${runId}/retry/`, {});
  }

  /** Say what became of a call whose end nobody saw. */
  async verify(callId: string, tookEffect: boolean): Promise<void> {
    await this.settle(callId, "verify", { took_effect: tookEffect });
  }

  async runAgain(callId: string): Promise<void> {
    await this.settle(callId, "retry", {});
  }

  /** Where a copy ends that has everything up to this event: a run that ended there ends there, too. */
  endAt(seq: number): number {
    const next = this.frames.find((frame) => frame.seq === seq + 1);
    return next?.phase === "end" ? seq + 1 : seq;
  }

  private async settle(callId: string, verb: "verify" | "retry", body: Json): Promise<void> {
    const { executions, session_id } = this.options.opening;
    const path = `${executions}?session=${session_id}&state=unknown`;
    const { results } = await this.options.rest.get<{ results: Execution[] }>(path);
    const found = results.find((one) => one.tool_use_id === callId);
    if (!found) throw new Error("Somebody else has settled this call.");
    await this.options.rest.post(`${executions}${found.id}/${verb}/`, body);
  }

  async wholeOutput(seq: number): Promise<string> {
    const path = `${this.options.opening.api}events/?after=${seq - 1}&limit=1`;
    const page = await this.options.rest.get<{ results: StoredEvent[] }>(path);
    return outputText(page.results[0]?.payload["output"]);
  }

  async summary(snapshotId: string): Promise<string> {
    const path = `${this.options.opening.api}snapshots/`;
    const { results } = await this.options.rest.get<{ results: Snapshot[] }>(path);
    const found = results.find((one) => one.id === snapshotId);
    if (!found) throw new Error("This snapshot belongs to another session.");
    return found.summary;
  }

  async undo(snapshotId: string): Promise<void> {
    await this.options.rest.post(`${this.options.opening.api}snapshots/${snapshotId}/undo/`, {});
  }

  /** Add the events before the first one that is known. */
  async loadEarlier(): Promise<void> {
    const { path, firstSeq } = pageBefore(this.options.opening.api, this.firstSeq);
    const page = await this.options.rest.get<{ results: StoredEvent[] }>(path);
    this.frames = [...framesOf(page.results), ...this.frames];
    this.firstSeq = firstSeq;
    this.state = withPast(this.state, this.frames, firstSeq);
  }

  close(): void {
    this.queue.close();
    this.outbox.close();
    this.family.close();
    this.link.close();
  }

  private hear(text: string): void {
    const said = read(text);
    switch (said?.kind) {
      case "frame":
        this.dispatch({ type: "frame", frame: said.frame });
        break;
      case "ack":
        this.outbox.acknowledge(said.id, said.seq, said.runId);
        this.commands.acknowledge(said.id);
        break;
      case "refusal":
        if (said.id && !this.outbox.refuse(said.id, said.reason, said.code)) {
          this.commands.refuse(said.id, said.reason, said.code);
        }
        break;
    }
  }

  private linked(state: LinkState, code: number): void {
    if (state === "open") {
      // Nothing is lacking any more once the replay is through; it begins now.
      this.dispatch({ type: "replaying" });
      this.outbox.flush();
      this.queue.ask();
    }
    this.options.onLink(state, code);
  }

  private dispatch(action: Action): void {
    const before = this.state;
    this.state = reduce(before, action);
    if (this.state === before) return;
    if (action.type === "frame" && action.frame.seq === this.state.seq) {
      this.frames.push(action.frame);
    }
    // The server's own word about the queue is no reason to ask again.
    if (action.type !== "queue") this.queue.follow(before, this.state);
    if (this.state.lacks && !before.lacks) this.link.resync();
    this.options.onChange();
  }
}
