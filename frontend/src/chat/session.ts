import { copyText, requireElement } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { isCommand, clickInCard } from "../lib/keys.ts";
import { restWith } from "../lib/rest.ts";
import { problemReporter, fileUrl, type AttachmentTray, attachmentTray, upload } from "./attachments.ts";
import { composer, type Composer, clearNewChatText, draftKey, storedText } from "./composer.ts";
import type { ChatHost } from "./host.ts";
import { placesOf } from "./messages.ts";
import { type ForkOptions, forkAndOpen } from "./new-session.ts";
import { QueueView } from "./queue.ts";
import { LineList, Scroll } from "./renderer.ts";
import { SessionClient } from "./session-client.ts";
import { isUser } from "./state.ts";
import { ContextPanel, Meter, StatusDisplay } from "./status.ts";
import { SubagentPreview } from "./subagent-preview.ts";
import { isBusy, readBootstrap, visibleItems, waits } from "./transcript.ts";

/** Hidden pages are redrawn less often. */
const HIDDEN_MS = 250;

/**
 * Take over a server-rendered chat: frames arrive live, messages and answers are sent.
 *
 * @example
 * <div data-island="chat"><ol data-lines>…</ol><form data-composer>…</form>
 *   <script type="application/json" id="chat-opening">…</script></div>
 */
export const session: Island = (root) => {
  const bootstrap = readBootstrap(root);
  const form = requireElement<HTMLFormElement>(root, "[data-composer]");
  const list = requireElement<HTMLElement>(root, "[data-lines]");
  const empty = requireElement<HTMLElement>(root, "[data-empty]");
  const problem = requireElement<HTMLElement>(root, "[data-problem]");
  const page = root.closest<HTMLElement>("[data-scrolls]") ?? requireElement<HTMLElement>(document, ".page");
  const token = requireElement<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value;
  const rest = restWith(token);
  const complain = problemReporter(problem);
  const scroll = new Scroll(page, requireElement(root, "[data-jump]"));
  const listening = new AbortController();
  let drawing = 0;
  let tray: AttachmentTray | undefined;
  // The socket can deliver before everything is set up.
  let statusDisplay: StatusDisplay | undefined;

  const client = new SessionClient({
    bootstrap,
    rest,
    store: localStorage,
    onChange: schedule,
    onLink: (state, code) => statusDisplay?.link(state, code),
  });
  const host: ChatHost = {
    agent: bootstrap.agent,
    mayRun: bootstrap.may_run,
    mayAdmin: bootstrap.may_admin,
    tools: bootstrap.tools,
    retry: (runId) => client.retry(runId),
    answer: (callId, said) => client.answer(callId, said),
    answerQuestion: (id, said) => client.subagents.answer(id, said),
    openPreview: (child) => void attempt(() => preview.open(child)),
    resendInFork: (item, text) => attempt(() => copy(item.seq! - 1, { text, files: item.files })),
    regenerateInFork: (item) => attempt(() => askAgain(item.order)),
    fork: (seq) => attempt(() => copy(client.endAt(seq))),
    fileUrl: (path) => fileUrl(bootstrap.api, path),
    verify: (callId, tookEffect) => client.verify(callId, tookEffect),
    runAgain: (callId) => client.runAgain(callId),
    resend: (id) => client.resend(id),
    reword: (id, { text, files }) => {
      client.forget(id);
      tray?.putBack(files);
      writing.addText(text);
    },
    discard: (id) => client.forget(id),
    wholeOutput: (seq) => client.wholeOutput(seq),
    summary: (id) => client.summary(id),
    undo: (id) => client.undo(id),
  };
  const writing: Composer = composer({
    form,
    typed: storedText(localStorage, draftKey(bootstrap.session_id)),
    onSend: (text, onBusy) => {
      complain("");
      client.send(text, onBusy, tray?.take());
      scroll.toEnd();
    },
    onStop: () => void attempt(() => client.stop()),
    onUp: () => {
      if (!waiting.editLast()) [...list.querySelectorAll<HTMLElement>("[data-edit-message]")].at(-1)?.click();
    },
    mustWait: () => tray?.isBusy ?? false,
  });
  const copies: ForkOptions = {
    api: bootstrap.api,
    sessionId: bootstrap.session_id,
    rest,
    token,
    store: localStorage,
    go: (path) => location.assign(path),
  };
  const copy = (atSeq: number, said?: Parameters<typeof forkAndOpen>[2]): Promise<void> =>
    forkAndOpen(copies, atSeq, said);
  tray = attachmentTray(form, {
    ground: root,
    largest: bootstrap.largest_file,
    put: (file, onShare) => upload(bootstrap.api, token, file, onShare),
    remove: (file) => void attempt(() => rest.remove(fileUrl(bootstrap.api, file.path))),
    onChange: () => writing.look(),
    onProblem: complain,
  });
  statusDisplay = new StatusDisplay(root, client.state, (words) => writing.setLink(words));
  const waiting = new QueueView({
    root: requireElement(root, "[data-queue]"),
    onEdit: (runId, text) => attempt(() => client.queue.edit(runId, text)),
    onRemove: (runId) => attempt(() => client.queue.remove(runId)),
    onLate: (text) => {
      complain("That message is no longer queued. Your edited text is below.");
      writing.addText(text);
    },
    onNow: (runId, onBusy) => attempt(() => client.queue.sendNow(runId, onBusy)),
    onMove: (runId, position) => attempt(() => client.queue.move(runId, position)),
    onDone: () => {
      if (matchMedia("(hover: hover)").matches) writing.focus();
    },
  });
  const flow = new LineList(list, host);
  const preview = new SubagentPreview({ inspector: requireElement(document, "#inspector"), bootstrap, rest, host });
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
    const { state } = client;
    const items = visibleItems(state);
    flow.draw(items);
    empty.hidden = items.length > 0;
    list.setAttribute("aria-busy", String(state.draft !== null));
    const letters = state.outbox.filter((one) => one.state === "sending" && !one.found);
    waiting.draw(
      placesOf(state),
      letters.filter((letter) => waits(state, letter)),
    );
    writing.setBusy(isBusy(state.status));
    statusDisplay?.draw(state);
    meter?.draw(state);
    panel?.follow(state);
    client.subagents.follow(state);
    if (!bootstrap.title) statusDisplay?.name(items);
    scroll.follow();
  }

  /** Ask the question of an answer again in a fork that ends before it. */
  async function askAgain(order: number): Promise<void> {
    const asked = client.state.items.filter(isUser).findLast((item) => item.order < order);
    if (!asked?.seq) throw new Error("Load earlier messages first.");
    await copy(asked.seq - 1, asked);
  }

  /** Run an action and show its error next to the composer. Resolves to whether it succeeded. */
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
      client.send(suggestion.value, "followup");
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
      await client.loadEarlier();
      scroll.hold(() => {
        flow.draw(visibleItems(client.state));
        button.hidden = client.firstSeq <= 1;
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
      if (isBusy(client.state.status)) void attempt(() => client.stop());
      // Leave the text, so that single keys work as shortcuts again.
      else (document.activeElement as HTMLElement | null)?.blur();
    } else if (isCommand(event, "enter")) {
      clickInCard(list, "[data-approve]", event);
    } else if (isCommand(event, "backspace")) {
      clickInCard(list, "[data-deny]", event);
    }
  }

  /** Whether keys pressed here belong to this chat: the one they are pressed in, else the first. */
  function isMine(target: HTMLElement): boolean {
    const others = [...document.querySelectorAll<HTMLElement>("[data-island=chat]")];
    const inside = others.find((one) => one.contains(target));
    return (inside ?? others[0] ?? root) === root;
  }

  root.addEventListener("click", onClick, { signal: listening.signal });
  list.addEventListener("line-grown", () => scroll.follow(), { signal: listening.signal });
  document.addEventListener("keydown", onKey, { signal: listening.signal });
  draw();
  clearNewChatText(localStorage, client.state.items.find(isUser)?.text ?? "");
  scroll.toEnd();
  if (matchMedia("(hover: hover)").matches && isMine(document.body)) writing.focus();
  return () => {
    listening.abort();
    preview.close();
    tray?.close();
    meter?.close();
    client.close();
    writing.close();
    statusDisplay?.close();
    panel?.close();
    scroll.close();
  };
};
