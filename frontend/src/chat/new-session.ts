/** Creates sessions: a first message with files, and forks. */
import { newId, reached, type Rest } from "../lib/rest.ts";
import { fileUrl, type Sending, upload } from "./attachments.ts";
import { draftKey, storedText } from "./composer.ts";
import type { Attached } from "./types.ts";

interface SessionStarterOptions {
  rest: Rest;
  /** REST path of sessions. */
  sessions: string;
  put: (api: string, file: File) => Sending;
}

/**
 * Starts a session with files. A retry resumes where the last attempt stopped, without creating a
 * second session or uploading a file twice.
 */
export class SessionStarter {
  private keys = new Map<string, string>();
  /** Uploads done or running, by file. */
  private uploaded = new Map<File, { api: string; done: Promise<Attached> }>();
  private readonly options: SessionStarterOptions;

  constructor(options: SessionStarterOptions) {
    this.options = options;
  }

  /** Create the session, upload the files, send the message and return the session's id. */
  async send(agent: string, text: string, files: readonly File[], model = ""): Promise<string> {
    const { rest, sessions } = this.options;
    const at = model.indexOf("/");
    const choice = model ? { provider: model.slice(0, at), model: model.slice(at + 1) } : {};
    const { id } = await rest.post<{ id: string }>(sessions, { agent, ...choice }, this.keyOf(agent + model));
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

  /** Reuse the idempotency key of an identical request. */
  private keyOf(what: string): string {
    const key = this.keys.get(what) ?? newId();
    this.keys.set(what, key);
    return key;
  }
}

// --- Forks: the log is never rewritten, so changing the past means a new session

/** A message to send in a fork. */
export interface NewMessage {
  text: string;
  files: readonly Attached[];
}

export interface ForkOptions {
  /** REST path of this session. */
  api: string;
  sessionId: string;
  rest: Rest;
  token: string;
  store: Storage;
  go: (path: string) => void;
}

/**
 * Fork after an event, send a message there if one is given, and open the fork.
 *
 * A branch is a fork that stays part of this chat and starts with the files of the session.
 */
export async function forkAndOpen(
  options: ForkOptions,
  atSeq: number,
  message?: NewMessage,
  branch = false,
): Promise<void> {
  const { api, sessionId, rest, store } = options;
  const wanted = { at_seq: atSeq, ...(branch ? { branch } : {}) };
  const made = await rest.post<{ id: string }>(`${api}fork/`, wanted, newId());
  const there = api.replace(sessionId, made.id);
  if (message) {
    try {
      const attachments = branch ? message.files : await copyFiles(options, there, message.files);
      const body = { text: message.text, ...(attachments.length ? { attachments } : {}) };
      await rest.post(`${there}messages/`, body, newId());
    } catch {
      // The fork exists; the message waits in its composer.
      storedText(store, draftKey(made.id)).write(message.text);
    }
  }
  options.go(`/chat/${made.id}/`);
}

/** Copy the files of a message into the fork's own workspace. */
async function copyFiles(
  options: ForkOptions,
  there: string,
  files: readonly Attached[],
): Promise<Attached[]> {
  const copies: Attached[] = [];
  for (const file of files) {
    const answer = await reached(fetch(fileUrl(options.api, file.path), { credentials: "same-origin" }));
    if (!answer.ok) throw new Error(`${file.name} no longer exists.`);
    const copy = new File([await answer.blob()], file.name, { type: file.media_type });
    copies.push(await upload(there, options.token, copy).done);
  }
  return copies;
}
