/** The messages that wait in a session, as the server has them: asked for, reworded, moved, sent now, taken back. */
import type { Rest } from "../lib/rest.ts";
import type { QueueEntry } from "./messages.ts";
import type { Action, State } from "./state.ts";

/** It is asked for a moment after something changed it, once for all changes. */
const ASK_MS = 100;

interface QueueOptions {
  rest: Rest;
  /** Where REST lists it. */
  path: string;
  now: () => State;
  dispatch: (action: Action) => void;
}

interface Listed {
  results: QueueEntry[];
  last_seq: number;
}

export class Queue {
  private timer: number | undefined;
  /** The frame with which to ask again; 0 when none is waited for. */
  private awaited = 0;
  private readonly options: QueueOptions;
  /** No frame tells that somebody moved a message: whoever looks at the page again asks. */
  private readonly onSeen = (): void => this.ask();

  constructor(options: QueueOptions) {
    this.options = options;
    document.addEventListener("visibilitychange", this.onSeen);
    window.addEventListener("focus", this.onSeen);
  }

  /** Ask whose turn it is among the messages that wait. */
  ask(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.read(), ASK_MS);
  }

  /** Ask when somebody waits and the server may see it otherwise than this page does. */
  follow(before: State, now: State): void {
    const moved = now.waiting !== before.waiting || now.status !== before.status;
    const came = this.awaited > 0 && now.seq >= this.awaited;
    if (came) this.awaited = 0;
    if (came || (now.waiting.length > 0 && moved)) this.ask();
  }

  async edit(runId: string, text: string): Promise<void> {
    await this.options.rest.patch(this.place(runId), { text });
    this.ask();
  }

  /** Let a waiting message join the running answer, or end it, instead of waiting for it. */
  async sendNow(runId: string, onBusy: "steer" | "interrupt"): Promise<void> {
    await this.options.rest.patch(this.place(runId), { on_busy: onBusy });
    this.ask();
  }

  async remove(runId: string): Promise<void> {
    await this.options.rest.remove(this.place(runId));
    this.ask();
  }

  /** Let a waiting message have another place; 0 is the next. */
  async move(runId: string, position: number): Promise<void> {
    await this.options.rest.patch(this.place(runId), { position });
    await this.read();
  }

  close(): void {
    window.clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onSeen);
    window.removeEventListener("focus", this.onSeen);
  }

  private async read(): Promise<void> {
    const { rest, path, now, dispatch } = this.options;
    if (!now().waiting.length) return;
    const asOf = now().seq;
    try {
      const { results, last_seq } = await rest.get<Listed>(path);
      // Whoever left the queue meanwhile did so in frames that are still on their way.
      if (last_seq > now().seq) this.awaited = last_seq;
      else dispatch({ type: "queue", entries: results, asOf });
    } catch {
      // The next change asks again; meanwhile the messages stay where they are.
    }
  }

  private place(runId: string): string {
    return `${this.options.path}${runId}/`;
  }
}
