/** Copies of a conversation: the log is never rewritten, so another past is another session. */
import type { Attached } from "./items.ts";
import { newId, reached, type Rest } from "../lib/rest.ts";
import { nameOf, typedIn } from "./typed.ts";
import { fileUrl, upload } from "./upload.ts";

export interface Said {
  text: string;
  files: readonly Attached[];
}

export interface CopiesOptions {
  /** Where REST knows this session. */
  api: string;
  sessionId: string;
  rest: Rest;
  token: string;
  store: Storage;
  go: (path: string) => void;
}

/** Copy everything up to an event, say something there if there is something to say, and go there. */
export async function copyAndGo(options: CopiesOptions, atSeq: number, said?: Said): Promise<void> {
  const { api, sessionId, rest, store } = options;
  const made = await rest.post<{ id: string }>(`${api}fork/`, { at_seq: atSeq }, newId());
  const there = api.replace(sessionId, made.id);
  if (said) {
    try {
      const attachments = await bring(options, there, said.files);
      const body = { text: said.text, ...(attachments.length ? { attachments } : {}) };
      await rest.post(`${there}messages/`, body, newId());
    } catch {
      // The copy is made; what was to be said waits in its composer.
      typedIn(store, nameOf(made.id)).write(said.text);
    }
  }
  options.go(`/chat/${made.id}/`);
}

/** A copy has a workspace of its own; the files of the message go there, too. */
async function bring(
  options: CopiesOptions,
  there: string,
  files: readonly Attached[],
): Promise<Attached[]> {
  const brought: Attached[] = [];
  for (const file of files) {
    const answer = await reached(fetch(fileUrl(options.api, file.path), { credentials: "same-origin" }));
    if (!answer.ok) throw new Error(`${file.name} is not there any more.`);
    const copy = new File([await answer.blob()], file.name, { type: file.media_type });
    brought.push(await upload(there, options.token, copy).done);
  }
  return brought;
}
