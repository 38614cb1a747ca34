import { submitApproval } from "../lib/approval-form.ts";
import { requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { clickInCard, isCommand } from "../lib/keys.ts";
import { restWith } from "../lib/rest.ts";
import { subscribe } from "../lib/socket.ts";
import { PREVIEW, type PreviewRequest } from "../rich/preview.ts";
import { listenForActions } from "./actions.ts";
import { type AttachmentTray, attachmentTray, fileUrl, problemReporter, upload } from "./attachments.ts";
import { clearNewChatText, type Composer, composer, draftKey, storedText } from "./composer.ts";
import { lineActions, sourceOf } from "./line-actions.ts";
import { unshownMessages, waitsInQueue } from "./live-state.ts";
import type { Artifacts } from "./artifacts.ts";
import { GROWN } from "./markdown-box.ts";
import type { ModelChoice } from "./model-picker.ts";
import { type ForkOptions, forkAndOpen } from "./new-session.ts";
import { QueueView } from "./queue.ts";
import { Ratings } from "./ratings.ts";
import { Scroll } from "./scroll.ts";
import { SessionClient } from "./session-client.ts";
import { ContextPanel, Meter, StatusDisplay } from "./status.ts";
import { SubagentPreview } from "./subagent-preview.ts";
import { Transcript } from "./transcript.ts";
import { type Conversation, isBusy, readBootstrap } from "./types.ts";

/** Hidden pages are redrawn less often. */
const HIDDEN_MS = 250;

/**
 * Take over a server-rendered chat: frames arrive live, messages and answers are sent.
 *
 * @example
 * <div data-island="chat"><ol data-lines>…</ol><form data-composer>…</form>
 *   <script type="application/json" id="chat-bootstrap">…</script><template data-template="draft">…</template></div>
 */
export const session: Island = (root) => {
  const bootstrap = readBootstrap(root);
  const form = requireElement<HTMLFormElement>(root, "[data-composer]");
  const list = requireElement<HTMLElement>(root, "[data-lines]");
  const empty = requireElement<HTMLElement>(root, "[data-empty]");
  const page = root.closest<HTMLElement>("[data-scrolls]") ?? requireElement<HTMLElement>(document, ".page");
  const token = requireElement<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value;
  const rest = restWith(token);
  const complain = problemReporter(requireElement<HTMLElement>(root, "[data-problem]"));
  const scroll = new Scroll(page, requireElement(root, "[data-jump]"));
  const listening = new AbortController();
  const { signal } = listening;
  let drawing = 0;
  let tray: AttachmentTray | undefined;
  let unsubscribe: (() => void) | undefined;
  // The socket can deliver before everything is set up.
  let statusDisplay: StatusDisplay | undefined;

  const transcript = new Transcript({
    list,
    earlier: requireElement<HTMLElement>(root, "[data-earlier-lines]"),
    templates: root,
    fileUrl: (path) => fileUrl(bootstrap.api, path),
  });
  const client = new SessionClient({
    bootstrap,
    rest,
    store: localStorage,
    versions: () => transcript.versions,
    onChange: schedule,
    onLines: showLines,
    onLink: (state, code) => statusDisplay?.link(state, code),
  });
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
      if (!waiting.editLast()) [...list.querySelectorAll<HTMLElement>("[data-action=edit]")].at(-1)?.click();
    },
    mustWait: () => tray?.isBusy ?? false,
  });
  const forks: ForkOptions = {
    api: bootstrap.api,
    sessionId: bootstrap.session_id,
    rest,
    token,
    store: localStorage,
    go: (path) => location.assign(path),
  };
  tray = attachmentTray(form, {
    ground: root,
    largest: bootstrap.largest_file,
    put: (file, onShare) => upload(bootstrap.api, token, file, onShare),
    remove: (file) => void attempt(() => rest.remove(fileUrl(bootstrap.api, file.path))),
    onChange: () => writing.look(),
    onProblem: complain,
  });
  statusDisplay = new StatusDisplay(root, bootstrap, (words) => writing.setLink(words));
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
  let artifacts: Artifacts | undefined;
  const ratings = new Ratings({ rest, api: bootstrap.api, templates: root, given: bootstrap.ratings });
  const inspector = requireElement<HTMLElement>(document, "#inspector");
  const preview = new SubagentPreview({ inspector, bootstrap, templates: root, rest, complain });
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

  /** Draw what the server's lines don't show yet, and everything around the transcript. */
  function draw(): void {
    drawing = 0;
    const { state } = client;
    const messages = unshownMessages(state);
    transcript.draw(
      state.drafts,
      messages.filter((message) => !waitsInQueue(message)),
      state.outputs,
    );
    empty.hidden = !transcript.isEmpty;
    list.setAttribute("aria-busy", String(state.drafts.some((draft) => !draft.endsAt)));
    waiting.draw(state.queue, messages.filter(waitsInQueue));
    writing.setBusy(isBusy(state.status));
    statusDisplay?.follow(state.status);
    panel?.follow(state.status, state.shownSeq);
    scroll.follow();
  }

  function showLines(conversation: Conversation): void {
    transcript.apply(conversation, client.state.drafts);
    ratings.mark(list);
    statusDisplay?.show(conversation);
    meter?.show(conversation.usage);
    followSubagents();
    draw();
  }

  /** While a sub-agent works, its approvals change the lines without an event in this session. */
  function followSubagents(): void {
    const isWorking = list.querySelector('[data-child="running"]') !== null;
    if (isWorking) unsubscribe ??= subscribe("/ws/approvals/", () => client.refresh());
    else if (unsubscribe) {
      unsubscribe();
      unsubscribe = undefined;
    }
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

  /** Choose another model for this chat, from its next run on. */
  async function chooseModel(choice: ModelChoice): Promise<void> {
    const { provider, model, name } = choice;
    await rest.patch(bootstrap.api, { provider, model });
    for (const place of [root, inspector]) {
      for (const node of place.querySelectorAll("[data-model]")) say(node, name);
    }
  }

  function onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const picker = target.closest<HTMLAnchorElement>("[data-model-picker]");
    if (picker && !event.metaKey && !event.ctrlKey) {
      event.preventDefault();
      void attempt(async () => {
        const { openModelPicker } = await import("./model-picker.ts");
        await openModelPicker(picker.href, chooseModel);
      });
    }
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
      const html = await client.fetchEarlier();
      scroll.hold(() => {
        transcript.addEarlier(html);
        ratings.mark(root);
        button.hidden = !client.hasEarlier;
      });
    } finally {
      button.removeAttribute("aria-disabled");
    }
  }

  /** Previews are loaded when the first one is asked for. */
  async function previews(): Promise<Artifacts> {
    const { Artifacts } = await import("./artifacts.ts");
    artifacts ??= new Artifacts({ inspector, bootstrap, rest });
    return artifacts;
  }

  function onPreview(event: Event): void {
    const { kind, text } = (event as CustomEvent<PreviewRequest>).detail;
    void attempt(async () => (await previews()).openText(kind, text));
  }

  async function onFilesOpened(): Promise<void> {
    if (!filesBox?.open) return;
    await attempt(async () => (await previews()).listFiles(filesBox));
  }
  const filesBox = root.closest("[data-scrolls]") ? null : document.querySelector<HTMLDetailsElement>("[data-files-box]");

  /** Scroll to the line that the address names. Returns whether there is one. */
  function showTarget(): boolean {
    const [kind, at] = location.hash.slice(1).split("-");
    const key = kind === "message" || kind === "answer" ? `[data-seq="${Number(at)}"]` : "";
    const line = key ? list.querySelector(key) : null;
    line?.scrollIntoView({ block: "start" });
    return line !== null;
  }

  function onAnswer(event: SubmitEvent): void {
    const answered = event.target as HTMLFormElement;
    if (!answered.matches("[data-answer]")) return;
    const approvalId = answered.dataset["approval"];
    const callId = answered.querySelector<HTMLInputElement>("[name=tool_use_id]")?.value ?? "";
    void submitApproval(event, (answer) =>
      approvalId ? client.answerApproval(approvalId, answer) : client.answer(callId, answer),
    );
  }

  function onKey(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    // Keys pressed in the inspector or in the list of chats are not meant for the answer.
    if ((event.target as HTMLElement).closest?.(".inspector, .chats")) return;
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

  /** A frame about a reordered queue may have been lost while the page was hidden. */
  function onSeen(): void {
    if (!document.hidden && client.state.queue.length) client.refresh();
  }

  listenForActions(root, {
    actions: {
      ...ratings.actions,
      "preview-file": async (button) =>
        (await previews()).openFile(button.dataset["path"] ?? "", Number(button.dataset["size"])),
      ...lineActions({
      client,
      templates: root,
      fork: (atSeq, message) => forkAndOpen(forks, atSeq, message),
      branch: (atSeq, message) => forkAndOpen(forks, atSeq, message, bootstrap.may_branch),
      reword: ({ text, files }) => {
        tray?.putBack(files);
        writing.addText(text);
      },
        openPreview: (button) => preview.open(button),
      }),
    },
    complain,
    signal,
  });
  root.addEventListener("click", onClick, { signal });
  root.addEventListener(PREVIEW, onPreview, { signal });
  filesBox?.addEventListener("toggle", () => void onFilesOpened(), { signal });
  root.addEventListener("submit", onAnswer, { signal });
  list.addEventListener(GROWN, () => scroll.follow(), { signal });
  document.addEventListener("keydown", onKey, { signal });
  document.addEventListener("visibilitychange", onSeen, { signal });
  window.addEventListener("focus", onSeen, { signal });
  meter?.show(bootstrap.usage);
  followSubagents();
  draw();
  clearNewChatText(localStorage, sourceOf(list));
  ratings.mark(list);
  if (!showTarget()) scroll.toEnd();
  if (matchMedia("(hover: hover)").matches && isMine(document.body)) writing.focus();
  return () => {
    listening.abort();
    unsubscribe?.();
    preview.close();
    artifacts?.close();
    tray?.close();
    meter?.close();
    client.close();
    writing.close();
    statusDisplay?.close();
    panel?.close();
    scroll.close();
  };
};
