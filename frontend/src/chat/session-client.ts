/** A client of one session: its state, its socket and its REST operations. */
import { type Json, newId, Refused, type Rest } from "../lib/rest.ts";
import { connect, type Link, type SocketState } from "../lib/socket.ts";
import { outputText } from "./calls.ts";
import { type Frame, read, type StoredEvent } from "./frames.ts";
import type { Said } from "./host.ts";
import type { OnBusy } from "./messages.ts";
import { Outbox } from "./outbox.ts";
import { Queue } from "./queue.ts";
import type { Action, Attached, State } from "./state.ts";
import { SubagentWatcher } from "./subagents.ts";
import { framesOf, type Bootstrap, pageBefore, reduce, stateOf, withEarlierFrames } from "./transcript.ts";

interface Snapshot {
  id: string;
  summary: string;
}

interface Execution {
  id: string;
  tool_use_id: string;
}

interface SessionClientOptions {
  bootstrap: Bootstrap;
  rest: Rest;
  store: Storage;
  onChange: () => void;
  onLink: (state: SocketState, code: number) => void;
}

export class SessionClient {
  state: State;
  /** Seq of the first loaded event. */
  firstSeq: number;
  readonly subagents: SubagentWatcher;
  readonly queue: Queue;
  private frames: Frame[];
  private readonly link: Link;
  private readonly outbox: Outbox;
  private readonly commands: Commands;
  private readonly options: SessionClientOptions;

  constructor(options: SessionClientOptions) {
    const { bootstrap, rest, store } = options;
    this.options = options;
    this.state = stateOf(bootstrap);
    this.firstSeq = bootstrap.first_seq;
    this.frames = bootstrap.frames.filter((frame) => frame.seq !== null);
    // Created first, because the outbox dispatches stored messages immediately.
    this.queue = new Queue({
      rest,
      path: `${bootstrap.api}queue/`,
      now: () => this.state,
      dispatch: (action) => this.dispatch(action),
    });
    const send = (message: object): boolean => this.link?.send(message) ?? false;
    this.outbox = new Outbox({
      store,
      name: `chat-outbox:${bootstrap.session_id}`,
      rest,
      path: `${bootstrap.api}messages/`,
      send,
      dispatch: (action) => this.dispatch(action),
    });
    this.subagents = new SubagentWatcher({ bootstrap, rest, dispatch: (action) => this.dispatch(action) });
    this.commands = new Commands(send, rest, `${bootstrap.api}events/`);
    this.link = connect({
      path: () => `/ws/sessions/${bootstrap.session_id}/?after=${this.state.seq}`,
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

  /** Stop the current run. A stop that arrives late must not end the next run. */
  async stop(): Promise<void> {
    const { runId } = this.state;
    try {
      await this.commands.give("user.interrupt", runId ? { run_id: runId } : {});
    } catch (fault) {
      // The run is already over.
      if (!(fault instanceof Refused && fault.code === "run_over")) throw fault;
    }
  }

  answer(callId: string, said: Said): Promise<void> {
    return this.commands.give("user.tool_confirmation", { tool_use_id: callId, ...said });
  }

  async retry(runId: string): Promise<void> {
    await this.options.rest.post(`${this.options.bootstrap.runs}${runId}/retry/`, {});
  }

  /** Record whether a call with an unknown outcome took effect. */
  async verify(callId: string, tookEffect: boolean): Promise<void> {
    await this.settle(callId, "verify", { took_effect: tookEffect });
  }

  async runAgain(callId: string): Promise<void> {
    await this.settle(callId, "retry", {});
  }

  /** Return where a fork after this event ends, including the end of its run. */
  endAt(seq: number): number {
    const next = this.frames.find((frame) => frame.seq === seq + 1);
    return next?.phase === "end" ? seq + 1 : seq;
  }

  private async settle(callId: string, verb: "verify" | "retry", body: Json): Promise<void> {
    const { executions, session_id } = this.options.bootstrap;
    const path = `${executions}?session=${session_id}&state=unknown`;
    const { results } = await this.options.rest.get<{ results: Execution[] }>(path);
    const found = results.find((one) => one.tool_use_id === callId);
    if (!found) throw new Error("Someone else already resolved this call.");
    await this.options.rest.post(`${executions}${found.id}/${verb}/`, body);
  }

  async wholeOutput(seq: number): Promise<string> {
    const path = `${this.options.bootstrap.api}events/?after=${seq - 1}&limit=1`;
    const page = await this.options.rest.get<{ results: StoredEvent[] }>(path);
    return outputText(page.results[0]?.payload["output"]);
  }

  async summary(snapshotId: string): Promise<string> {
    const path = `${this.options.bootstrap.api}snapshots/`;
    const { results } = await this.options.rest.get<{ results: Snapshot[] }>(path);
    const found = results.find((one) => one.id === snapshotId);
    if (!found) throw new Error("The summary wasn't found.");
    return found.summary;
  }

  async undo(snapshotId: string): Promise<void> {
    await this.options.rest.post(`${this.options.bootstrap.api}snapshots/${snapshotId}/undo/`, {});
  }

  /** Load the events before the first loaded one. */
  async loadEarlier(): Promise<void> {
    const { path, firstSeq } = pageBefore(this.options.bootstrap.api, this.firstSeq);
    const page = await this.options.rest.get<{ results: StoredEvent[] }>(path);
    this.frames = [...framesOf(page.results), ...this.frames];
    this.firstSeq = firstSeq;
    this.state = withEarlierFrames(this.state, this.frames, firstSeq);
  }

  close(): void {
    this.queue.close();
    this.outbox.close();
    this.subagents.close();
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

  private linked(state: SocketState, code: number): void {
    if (state === "open") {
      // The replay that starts now fills the gap.
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
    // The server's own queue is no reason to read it again.
    if (action.type !== "queue") this.queue.follow(before, this.state);
    if (this.state.lacks && !before.lacks) this.link.resync();
    this.options.onChange();
  }
}

// --- Commands other than messages, over the socket or else REST

const ANSWER_MS = 8_000;

interface Waiting {
  resolve: () => void;
  reject: (fault: Error) => void;
  timer: number;
}

export class Commands {
  private waiting = new Map<string, Waiting>();
  private readonly send: (message: object) => boolean;
  private readonly rest: Rest;
  private readonly path: string;

  constructor(send: (message: object) => boolean, rest: Rest, path: string) {
    this.send = send;
    this.rest = rest;
    this.path = path;
  }

  /**
   * Send a command; resolves when the server accepted it and rejects with its reason.
   *
   * The server recognises the id on both transports, so an unanswered command is repeated over
   * REST.
   */
  async give(type: string, payload: Json): Promise<void> {
    const id = newId();
    if (!this.send({ type, payload, id })) return this.post(type, payload, id);
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => {
        this.waiting.delete(id);
        this.post(type, payload, id).then(resolve, reject);
      }, ANSWER_MS);
      this.waiting.set(id, { resolve, reject, timer });
    });
  }

  acknowledge(id: string): void {
    this.take(id)?.resolve();
  }

  refuse(id: string, reason: string, code: string): void {
    this.take(id)?.reject(new Refused(reason, 0, code));
  }

  private take(id: string): Waiting | undefined {
    const found = this.waiting.get(id);
    if (found) {
      window.clearTimeout(found.timer);
      this.waiting.delete(id);
    }
    return found;
  }

  private async post(type: string, payload: Json, id: string): Promise<void> {
    await this.rest.post(this.path, { type, payload }, id);
  }
}
