import type { Island } from "../lib/islands.ts";
import { isCommand } from "../lib/keys.ts";
import { pressInCard } from "../lib/press.ts";
import { Beside } from "./beside.ts";
import { composer, type Composer } from "./composer.ts";
import { copyAndGo, type CopiesOptions } from "./copies.ts";
import { ContextPanel } from "./contextpanel.ts";
import type { Desk } from "./desk.ts";
import { copyText, need } from "../lib/dom.ts";
import { Flow } from "./flow.ts";
import { isUser } from "./items.ts";
import { placesOf } from "./messages.ts";
import { Meter } from "./meter.ts";
import { openingOf } from "./opening.ts";
import { QueueView } from "./queueview.ts";
import { restWith } from "../lib/rest.ts";
import { Scroll } from "./scroll.ts";
import { isBusy, shown, waits } from "./shown.ts";
import { Signs } from "./signs.ts";
import { Talk } from "./talk.ts";
import { complaint, trayIn, type Tray } from "./tray.ts";
import { forgetFirst, nameOf, typedIn } from "./typed.ts";
import { fileUrl, upload } from "./upload.ts";

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
  const page = root.closest<HTMLElement>("[data-scrolls]") ?? need<HTMLElement>(document, ".page");
  const token = need<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value;
  const rest = restWith(token);
  const complain = complaint(problem);
  const scroll = new Scroll(page, need(root, "[data-jump]"));
  const listening = new AbortController();
  let drawing = 0;
  let tray: Tray | undefined;
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
    mayAdmin: opening.may_admin,
    tools: opening.tools,
    retry: (runId) => talk.retry(runId),
    answer: (callId, said) => talk.answer(callId, said),
    answerQuestion: (id, said) => talk.family.answer(id, said),
    lookInto: (child) => void attempt(() => beside.open(child)),
    sayInstead: (item, text) => attempt(() => copy(item.seq! - 1, { text, files: item.files })),
    answerAgain: (item) => attempt(() => askAgain(item.order)),
    fork: (seq) => attempt(() => copy(talk.endAt(seq))),
    fileUrl: (path) => fileUrl(opening.api, path),
    verify: (callId, tookEffect) => talk.verify(callId, tookEffect),
    runAgain: (callId) => talk.runAgain(callId),
    resend: (id) => talk.resend(id),
    reword: (id, { text, files }) => {
      talk.forget(id);
      tray?.putBack(files);
      writing.addText(text);
    },
    discard: (id) => talk.forget(id),
    wholeOutput: (seq) => talk.wholeOutput(seq),
    summary: (id) => talk.summary(id),
    undo: (id) => talk.undo(id),
  };
  const writing: Composer = composer({
    form,
    typed: typedIn(localStorage, nameOf(opening.session_id)),
    onSend: (text, onBusy) => {
      complain("");
      talk.send(text, onBusy, tray?.take());
      scroll.toEnd();
    },
    onStop: () => void attempt(() => talk.stop()),
    onUp: () => {
      if (!waiting.editLast()) [...list.querySelectorAll<HTMLElement>("[data-edit-message]")].at(-1)?.click();
    },
    mustWait: () => tray?.isBusy ?? false,
  });
  const copies: CopiesOptions = {
    api: opening.api,
    sessionId: opening.session_id,
    rest,
    token,
    store: localStorage,
    go: (path) => location.assign(path),
  };
  const copy = (atSeq: number, said?: Parameters<typeof copyAndGo>[2]): Promise<void> =>
    copyAndGo(copies, atSeq, said);
  tray = trayIn(form, {
    ground: root,
    largest: opening.largest_file,
    put: (file, onShare) => upload(opening.api, token, file, onShare),
    remove: (file) => void attempt(() => rest.remove(fileUrl(opening.api, file.path))),
    onChange: () => writing.look(),
    onProblem: complain,
  });
  signs = new Signs(root, talk.state, (words) => writing.setLink(words));
  const waiting = new QueueView({
    root: need(root, "[data-queue]"),
    onEdit: (runId, text) => attempt(() => talk.queue.edit(runId, text)),
    onRemove: (runId) => attempt(() => talk.queue.remove(runId)),
    onLate: (text) => {
      complain("That message waits no more. Your new wording is below.");
      writing.addText(text);
    },
    onNow: (runId, onBusy) => attempt(() => talk.queue.sendNow(runId, onBusy)),
    onMove: (runId, position) => attempt(() => talk.queue.move(runId, position)),
    onDone: () => {
      if (matchMedia("(hover: hover)").matches) writing.focus();
    },
  });
  const flow = new Flow(list, desk);
  const beside = new Beside({ inspector: need(document, "#inspector"), opening, rest, desk });
  const box = document.querySelector<HTMLElement>("[data-context]");
  const line = root.querySelector<HTMLElement>("[data-meter]");
  const meter = line ? new Meter(line) : undefined;
  const panel = box ? new ContextPanel(box, (used, all) => meter?.fill(used, all)) : undefined;

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
    writing.setBusy(isBusy(state.status));
    signs?.draw(state);
    meter?.draw(state);
    panel?.follow(state);
    talk.family.follow(state);
    if (!opening.title) signs?.name(items);
    scroll.follow();
  }

  /** The question before an answer, asked again in a copy that ends before it. */
  async function askAgain(order: number): Promise<void> {
    const asked = talk.state.items.filter(isUser).findLast((item) => item.order < order);
    if (!asked?.seq) throw new Error("Its question is in an earlier part. Show that first.");
    await copy(asked.seq - 1, asked);
  }

  /** Does something that may fail, and says near the composer why it did. True when it did not. */
  async function attempt(act: () => Promise<void>): Promise<boolean> {
    complain("");
    try {
      await act();
      return true;
    } catch (fault) {
      complain((fault as Error).message);
      return false;
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
    if (!isMine(event.target as HTMLElement)) return;
    if (event.key === "Escape") {
      event.preventDefault();
      if (isBusy(talk.state.status)) void attempt(() => talk.stop());
      // Out of the text, so that single keys are shortcuts again.
      else (document.activeElement as HTMLElement | null)?.blur();
    } else if (isCommand(event, "enter")) {
      pressInCard(list, "[data-approve]", event);
    } else if (isCommand(event, "backspace")) {
      pressInCard(list, "[data-deny]", event);
    }
  }

  /** Of several talks on one page, keys are for the one that they are pressed in, else the first. */
  function isMine(target: HTMLElement): boolean {
    const others = [...document.querySelectorAll<HTMLElement>("[data-island=chat]")];
    const inside = others.find((one) => one.contains(target));
    return (inside ?? others[0] ?? root) === root;
  }

  root.addEventListener("click", onClick, { signal: listening.signal });
  list.addEventListener("line-grown", () => scroll.follow(), { signal: listening.signal });
  document.addEventListener("keydown", onKey, { signal: listening.signal });
  draw();
  forgetFirst(localStorage, talk.state.items.find(isUser)?.text ?? "");
  scroll.toEnd();
  if (matchMedia("(hover: hover)").matches && isMine(document.body)) writing.focus();
  return () => {
    listening.abort();
    beside.close();
    tray?.close();
    meter?.close();
    talk.close();
    writing.close();
    signs?.close();
    panel?.close();
    scroll.close();
  };
};
