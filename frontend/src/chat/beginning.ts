/** A conversation that begins with files: its session is made and filled before the first word. */
import { newId, type Rest } from "../lib/rest.ts";
import type { Attached } from "./items.ts";
import type { Sending } from "./upload.ts";

interface BeginningOptions {
  rest: Rest;
  /** Where REST makes sessions. */
  sessions: string;
  put: (api: string, file: File) => Sending;
}

/** Goes on, after a try that broke off, from where it did: no second session, no file twice. */
export class Beginning {
  private keys = new Map<string, string>();
  /** What lies in which session already, or is on its way. */
  private uploaded = new Map<File, { api: string; done: Promise<Attached> }>();
  private readonly options: BeginningOptions;

  constructor(options: BeginningOptions) {
    this.options = options;
  }

  /** The id of the session, once everything is said. */
  async send(agent: string, text: string, files: readonly File[]): Promise<string> {
    const { rest, sessions } = this.options;
    const { id } = await rest.post<{ id: string }>(sessions, { agent }, this.keyOf(agent));
    const api = `${sessions}${id}/`;
    const attachments = await Promise.all(files.map((file) => this.upload(api, file)));
    const body = { text, attachments };
    await rest.post(`${api}messages/`, body, this.keyOf(`${api} ${JSON.stringify(body)}`));
    return id;
  }

  private upload(api: string, file: File): Promise<Attached> {
    const known = this.uploaded.get(file);
    if (known?.api === api) return known.done;
    const { done } = this.options.put(api, file);
    this.uploaded.set(file, { api, done });
    done.catch(() => this.uploaded.delete(file));
    return done;
  }

  /** The same request has the same key, so that the server knows it again. */
  private keyOf(what: string): string {
    const key = this.keys.get(what) ?? newId();
    this.keys.set(what, key);
    return key;
  }
}
