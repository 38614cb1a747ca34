import type { Island } from "../lib/islands.ts";
import { isCommand } from "../lib/keys.ts";
import { composer, type Composer } from "./composer.ts";
import type { Desk } from "./desk.ts";
import { copyText, need, say } from "./dom.ts";
import { Flow } from "./flow.ts";
import { placesOf } from "./messages.ts";
import { openingOf } from "./opening.ts";
import { QueueView } from "./queue.ts";
import { restWith } from "./rest.ts";
import { Scroll } from "./scroll.ts";
import { Signs } from "./signs.ts";
import { Talk } from "./talk.ts";
import { isBusy, shown, waits } from "./transcript.ts";

/** A page that nobody sees is drawn less often. */
const HIDDEN_MS = 250;

/**
 * Takes over a chat that the server has written: frames come in live, messages and answers go out.
 *
 * @example
 * <div data-island="chat"><ol data-lines>…</ol><form data-composer>…</form>
 *   <script type="application/json" id="chat-opening">…</script></div>
 */
export const session: Island = (root) => {
  const opening = openingOf(root);
  const form = need<HTMLFormElement>(root, "[data-composer]");
  const list = need<HTMLElement>(root, "[data-lines]");
  const empty = need<HTMLElement>(root, "[data-empty]");
  const problem = need<HTMLElement>(root, "[data-problem]");
  const rest = restWith(need<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value);
  const page = need<HTMLElement>(document, ".page");
  const scroll = new Scroll(page, need(root, "[data-jump]"));
  const listening = new AbortController();
  let drawing = 0;
  // The socket may speak before everything is built.
  let signs: Signs | undefined;

  const talk = new Talk({
    opening,
    rest,
    store: localStorage,
    onChange: schedule,
    onLink: (state, code) => signs?.link(state, code),
  });
  const desk: Desk = {
    agent: opening.agent,
    mayRun: opening.may_run,
    tools: opening.tools,
    retry: (runId) => talk.retry(runId),
    answer: (callId, decision, note, input) => talk.answer(callId, decision, note, input),
    resend: (id) => talk.resend(id),
    reword: (id, text) => {
      talk.forget(id);
      writing.setText(text);
    },
    wholeOutput: (seq) => talk.wholeOutput(seq),
  };
  const writing: Composer = composer({
    form,
    store: localStorage,
    name: `chat-draft:${opening.session_id}`,
    onSend: (text, onBusy) => {
      talk.send(text, onBusy);
      scroll.toEnd();
    },
    onStop: () => void attempt(() => talk.stop()),
    onUp: () => waiting.editLast(),
  });
  signs = new Signs(root, talk.state, (words) => writing.setLink(words));
  const waiting = new QueueView({
    root: need(root, "[data-queue]"),
    onEdit: (runId, text) => attempt(() => talk.editQueued(runId, text)),
    onRemove: (runId) => attempt(() => talk.removeQueued(runId)),
    onNow: (runId, text) => attempt(() => talk.sendNow(runId, text)),
  });
  const flow = new Flow(list, desk);

  function schedule(): void {
    if (drawing) return;
    drawing = document.hidden
      ? window.setTimeout(draw, HIDDEN_MS)
      : window.requestAnimationFrame(draw);
  }

  function draw(): void {
    drawing = 0;
    const { state } = talk;
    const items = shown(state);
    flow.draw(items);
    empty.hidden = items.length > 0;
    list.setAttribute("aria-busy", String(state.draft !== null));
    const letters = state.outbox.filter((one) => one.state === "sending" && !one.found);
    waiting.draw(
      placesOf(state),
      letters.filter((letter) => waits(state, letter)),
    );
    writing.setBusy(isBusy(state.status), state.status !== "idle" && isBusy(state.status));
    signs?.draw(state);
    scroll.follow();
  }

  /** Does something that may fail, and says near the composer why it did. */
  async function attempt(act: () => Promise<void>): Promise<void> {
    problem.hidden = true;
    try {
      await act();
    } catch (fault) {
      say(problem, (fault as Error).message);
      problem.hidden = false;
    }
  }

  function onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const copy = target.closest<HTMLElement>("[data-copy-code]");
    if (copy) void copyText(copy.closest(".code-box")?.querySelector("pre")?.textContent ?? "", copy);
    const suggestion = target.closest<HTMLButtonElement>("[data-suggestion]");
    if (suggestion) {
      event.preventDefault();
      talk.send(suggestion.value, "followup");
    }
    const earlier = target.closest<HTMLElement>("[data-earlier]");
    if (earlier) {
      event.preventDefault();
      void attempt(() => showEarlier(earlier));
    }
  }

  async function showEarlier(button: HTMLElement): Promise<void> {
    button.setAttribute("aria-disabled", "true");
    try {
      await talk.loadEarlier();
      scroll.hold(() => {
        flow.draw(shown(talk.state));
        button.hidden = talk.firstSeq <= 1;
      });
    } finally {
      button.removeAttribute("aria-disabled");
    }
  }

  function onKey(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && isBusy(talk.state.status)) {
      event.preventDefault();
      void attempt(() => talk.stop());
    } else if (isCommand(event, "enter")) {
      press("[data-approve]", event);
    } else if (isCommand(event, "backspace")) {
      press("[data-deny]", event);
    }
  }

  /** The button of the card that one is in, else of the first; not while something is typed. */
  function press(selector: string, event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const card = target.closest?.(".approval") ?? null;
    const isText = target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;
    if (isText && target.value && !(card && selector === "[data-approve]")) return;
    const button = (card ?? list).querySelector<HTMLButtonElement>(selector);
    if (!button) return;
    event.preventDefault();
    button.click();
  }

  root.addEventListener("click", onClick, { signal: listening.signal });
  document.addEventListener("keydown", onKey, { signal: listening.signal });
  draw();
  scroll.toEnd();
  return () => {
    listening.abort();
    talk.close();
    writing.close();
    signs?.close();
    scroll.close();
  };
};
