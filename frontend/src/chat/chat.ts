/**
 * Takes over the server-rendered chat: live frames in, messages and answers out.
 *
 * @example
 * <div data-island="chat"><ol data-lines>…</ol><form data-composer>…</form></div>
 */
import type { Island } from "../lib/islands.ts";
import { isTyping } from "../lib/keys.ts";
import { Commands } from "./commands.ts";
import { composer } from "./composer.ts";
import type { Desk } from "./desk.ts";
import { copyText, need, say } from "./dom.ts";
import { Flow } from "./flow.ts";
import { read, type Frame, type StoredEvent } from "./frames.ts";
import { outputText } from "./calls.ts";
import { connect, type LinkState } from "./link.ts";
import { placesOf, type QueueEntry } from "./messages.ts";
import { framesOf, openingOf, pageBefore, stateOf, withPast } from "./opening.ts";
import { Outbox } from "./outbox.ts";
import { QueueView } from "./queue.ts";
import { restWith } from "./rest.ts";
import { Scroll } from "./scroll.ts";
import { Signs } from "./signs.ts";
import { isBusy, reduce, shown, thousands, waits, type Action } from "./transcript.ts";

const QUEUE_MS = 120;

export const chat: Island = (root) => {
  const opening = openingOf(root);
  const form = need<HTMLFormElement>(root, "[data-composer]");
  const token = need<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value;
  const rest = restWith(token);
  let state = stateOf(opening);
  let frames: Frame[] = opening.frames.filter((frame) => frame.seq !== null);
  let firstSeq = opening.first_seq;
  let drawing = 0;
  let asking: number | undefined;
  return () => undefined;
};
