/** What the page tells the session besides messages: stop, allow, deny. Over the socket, else REST. */
import type { Json } from "../lib/json.ts";
import { newId, Refused, type Rest } from "../lib/rest.ts";

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
   * Resolves when the server took it, rejects with its reason.
   *
   * The server knows its id at every door, so one without an answer is repeated by another way.
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
