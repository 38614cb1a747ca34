/** A client of one session: its live state, its socket, its lines and its REST operations. */
import { refresher, type Refresher } from "../lib/pages.ts";
import { type Json, newId, Refused, type Rest } from "../lib/rest.ts";
import { connect, type Link, type SocketState } from "../lib/socket.ts";
import { read } from "./frames.ts";
import { type Action, initialState, type LiveState, reduce } from "./live-state.ts";
import { Outbox } from "./outbox.ts";
import { Queue } from "./queue.ts";
import type { Attached, Bootstrap, Conversation, OnBusy } from "./types.ts";

/** Frames within this time cause one request. */
const GATHER_MS = 25;

interface Snapshot {
  id: string;
  summary: string;
}

interface Execution {
  id: string;
  tool_use_id: string;
}

/** An earlier part of the conversation. */
interface Earlier {
  first_seq: number;
  html: string;
}

interface SessionClientOptions {
  bootstrap: Bootstrap;
  rest: Rest;
  store: Storage;
  /** The versions of the lines that the page shows. */
  versions: () => string[];
  /** Lines without buttons. */
  isReadOnly?: boolean;
  onChange: () => void;
  onLines: (conversation: Conversation) => void;
  onLink: (state: SocketState, code: number) => void;
}

export class SessionClient {
  state: LiveState;
  readonly queue: Queue;
  /** Seq of the first event that the live lines show. */
  private firstSeq: number;
  /** Seq of the first event that the page shows. */
  private earliestSeq: number;
  private readonly link: Link;
  private readonly lines: Refresher;
  private readonly outbox: Outbox;
  private readonly commands: Commands;
  private readonly options: SessionClientOptions;

  constructor(options: SessionClientOptions) {
    const { bootstrap, rest, store } = options;
    this.options = options;
    this.state = initialState(bootstrap);
    this.firstSeq = this.earliestSeq = bootstrap.first_seq;
    this.lines = refresher(
      () => this.linesAddress(),
      (answer) => this.takeLines(JSON.parse(answer) as Conversation),
      GATHER_MS,
    );
    this.queue = new Queue(rest, `${bootstrap.api}queue/`, () => this.refresh());
    const send = (message: object): boolean => this.link?.send(message) ?? false;
    this.outbox = new Outbox({
      store,
      name: `chat-outbox:${bootstrap.session_id}`,
      rest,
      path: `${bootstrap.api}messages/`,
      send,
      dispatch: (action) => this.dispatch(action),
    });
    this.commands = new Commands(send, rest, `${bootstrap.api}events/`);
    this.link = connect({
      path: () => `/ws/sessions/${bootstrap.session_id}/?after=${this.state.seq}`,
      onMessage: (text) => this.hear(text),
      onState: (state, code) => this.linked(state, code),
    });
  }

  /** Whether the log begins before what the page shows. */
  get hasEarlier(): boolean {
    return this.earliestSeq > 1;
  }

  /** Fetch the lines again soon. */
  refresh(): void {
    this.lines.soon();
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

  answer(callId: string, answer: Json): Promise<void> {
    return this.commands.give("user.tool_confirmation", { tool_use_id: callId, ...answer });
  }

  /** Answer an approval of a sub-agent. */
  async answerApproval(approvalId: string, answer: Json): Promise<void> {
    await this.options.rest.post(`${this.options.bootstrap.approvals}${approvalId}/`, answer);
    this.refresh();
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
    const page = await this.options.rest.get<{ results: { payload: Json }[] }>(path);
    const output = page.results[0]?.payload["output"] ?? "";
    return typeof output === "string" ? output : JSON.stringify(output, null, 2);
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

  /** Fetch the lines before the first one that the page shows. */
  async fetchEarlier(): Promise<string> {
    const path = `${this.options.bootstrap.lines}?before=${this.earliestSeq}`;
    const earlier = await this.options.rest.get<Earlier>(path);
    this.earliestSeq = earlier.first_seq;
    return earlier.html;
  }

  close(): void {
    this.lines.stop();
    this.outbox.close();
    this.link.close();
  }

  private linesAddress(): string {
    const { bootstrap, versions, isReadOnly } = this.options;
    const have = versions().join(".");
    return `${bootstrap.lines}?from=${this.firstSeq}&have=${have}${isReadOnly ? "&read_only=1" : ""}`;
  }

  private takeLines(conversation: Conversation): void {
    this.firstSeq = conversation.first_seq;
    this.state = reduce(this.state, { type: "fetched", conversation });
    this.options.onLines(conversation);
  }

  private hear(text: string): void {
    const message = read(text);
    switch (message?.kind) {
      case "frame":
        this.dispatch({ type: "frame", frame: message.frame });
        break;
      case "queue":
        this.refresh();
        break;
      case "ack":
        this.outbox.acknowledge(message.id, message.seq);
        this.commands.acknowledge(message.id);
        break;
      case "refusal":
        if (message.id && !this.outbox.refuse(message.id, message.reason, message.code)) {
          this.commands.refuse(message.id, message.reason, message.code);
        }
        break;
    }
  }

  private linked(state: SocketState, code: number): void {
    if (state === "open") {
      // The replay that starts now fills the gap.
      this.dispatch({ type: "replaying" });
      this.outbox.flush();
      if (this.state.seq > this.state.shownSeq) this.refresh();
    }
    this.options.onLink(state, code);
  }

  private dispatch(action: Action): void {
    const before = this.state;
    this.state = reduce(before, action);
    if (this.state === before) return;
    if (this.state.seq > before.seq) this.refresh();
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
