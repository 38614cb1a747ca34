/**
 * The list of lines, which the server renders.
 *
 * The browser draws only what no server line shows yet, from templates of the server: the answer
 * being written, messages on their way, and the output of running calls.
 */
import { requireElement, say } from "../lib/dom.ts";
import { type Live, liveText } from "./deltas.ts";
import type { LiveDraft } from "./live-state.ts";
import { markdownBox, renderMarkdownIn } from "./markdown-box.ts";
import { morph } from "./morph.ts";
import type { OutgoingMessage } from "./outbox.ts";
import type { Attached, Conversation } from "./types.ts";

/** Pixels from the end of a running call's output that still count as the end. */
const NEAR = 24;

interface TranscriptOptions {
  list: HTMLElement;
  /** Takes lines that are too old to be updated. Without it they are removed. */
  earlier?: HTMLElement | undefined;
  /** Contains the templates. */
  templates: ParentNode;
  fileUrl: (path: string) => string;
}

/** Return a copy of what is in a template of the server. */
export function copyTemplate(root: ParentNode, name: string): DocumentFragment {
  const template = requireElement<HTMLTemplateElement>(root, `template[data-template="${name}"]`);
  return document.importNode(template.content, true);
}

export class Transcript {
  private readonly options: TranscriptOptions;

  constructor(options: TranscriptOptions) {
    this.options = options;
    renderMarkdownIn(options.list);
    namePlatformKeys(options.list);
  }

  get isEmpty(): boolean {
    return this.lines().length === 0;
  }

  /** The versions of the lines, so that the server leaves them out. */
  get versions(): string[] {
    return this.lines().flatMap((line) => line.dataset["version"] || []);
  }

  private lines(): HTMLElement[] {
    return [...this.options.list.children] as HTMLElement[];
  }

  /** Show the conversation as the server has it now, and keep the drafts that it lacks. */
  apply(conversation: Conversation, drafts: readonly LiveDraft[]): void {
    const fresh = byKey(parse(conversation.html));
    const shown = byKey(this.lines());
    const kept = new Set(drafts.map((draft) => draft.eventId));
    let at = this.options.list.firstChild;
    for (const key of conversation.keys) {
      const known = shown.get(key);
      const line = this.renewed(known, fresh.get(key));
      if (!line) continue;
      shown.delete(key);
      if (known === at && line !== known) at = line;
      if (line === at) at = at.nextSibling;
      else this.options.list.insertBefore(line, at);
    }
    for (const [key, line] of shown) {
      const isOurs = line.dataset["outgoing"] !== undefined || kept.has(key);
      if (!isOurs) this.drop(line, conversation.first_seq);
    }
    const now = byKey(this.lines());
    for (const key of fresh.keys()) tellTimes(now.get(key));
  }

  /** Return the line to show: the one that is there, changed if there is a newer rendering. */
  private renewed(line: HTMLElement | undefined, fresh: HTMLElement | undefined): HTMLElement | undefined {
    if (!line || !fresh) {
      if (fresh) prepare(fresh);
      return line ?? fresh;
    }
    if (isBeingEdited(line, fresh)) return line;
    if (line.className === fresh.className) {
      morph(line, fresh);
      prepare(line);
      return line;
    }
    const hadFocus = line.contains(document.activeElement);
    line.replaceWith(fresh);
    prepare(fresh);
    if (hadFocus) fresh.querySelector<HTMLElement>("summary")?.focus({ preventScroll: true });
    return fresh;
  }

  private drop(line: HTMLElement, firstSeq: number): void {
    const { earlier } = this.options;
    if (!earlier || !(Number(line.dataset["seq"]) < firstSeq)) {
      line.remove();
      return;
    }
    earlier.append(line);
    earlier.hidden = false;
  }

  /** Show lines before all others. */
  addEarlier(html: string): void {
    const { earlier } = this.options;
    if (!earlier) return;
    const lines = parse(html);
    earlier.prepend(...lines);
    earlier.hidden = earlier.children.length === 0;
    lines.forEach(prepare);
    lines.forEach(tellTimes);
  }

  /** Draw what the server's lines don't show yet. */
  draw(drafts: readonly LiveDraft[], messages: readonly OutgoingMessage[], outputs: ReadonlyMap<string, Live>): void {
    for (const draft of drafts) if (draft.text && !draft.endsAt) this.drawDraft(draft);
    const lines = new Map(this.lines().map((line) => [line.dataset["outgoing"] ?? "", line]));
    const ids = new Set(messages.map((message) => message.id));
    for (const [id, line] of lines) if (id && !ids.has(id)) line.remove();
    for (const message of messages) drawMessage(lines.get(message.id) ?? this.addMessage(message), message);
    for (const [call, live] of outputs) this.drawOutput(call, live);
  }

  private drawDraft(draft: LiveDraft): void {
    let line = this.lines().find((one) => one.dataset["key"] === draft.eventId);
    // The lines may be newer than the frames: then the stored answer is shown, and its draft is old.
    if (line?.dataset["version"]) return;
    if (!line) {
      line = requireElement<HTMLElement>(copyTemplate(this.options.templates, draft.isThinking ? "thinking" : "draft"), "[data-key]");
      line.dataset["key"] = draft.eventId;
      const firstMessage = this.lines().find((one) => one.dataset["outgoing"] !== undefined);
      this.options.list.insertBefore(line, firstMessage ?? null);
    }
    markdownBox(requireElement(line, "[data-markdown]")).show(draft.text, true);
  }

  private addMessage(message: OutgoingMessage): HTMLElement {
    const { list, templates } = this.options;
    const line = requireElement<HTMLElement>(copyTemplate(templates, "outgoing"), "[data-key]");
    line.dataset["key"] = `outgoing-${message.id}`;
    line.dataset["outgoing"] = message.id;
    const bubble = requireElement<HTMLElement>(line, "[data-text]");
    if (bubble.matches("[data-markdown]")) markdownBox(bubble).show(message.text);
    else bubble.textContent = message.text;
    const files = requireElement<HTMLElement>(line, "ul");
    files.append(...message.files.map((file) => this.fileChip(file)));
    files.hidden = message.files.length === 0;
    list.append(line);
    return line;
  }

  private fileChip(file: Attached): DocumentFragment {
    const chip = copyTemplate(this.options.templates, "file");
    const link = requireElement<HTMLAnchorElement>(chip, "a");
    link.href = this.options.fileUrl(file.path);
    link.download = file.name;
    link.title = file.path;
    requireElement(link, "[data-name]").textContent = file.name;
    return chip;
  }

  /** Show the output of a running call, scrolled to its end unless the reader scrolled up. */
  private drawOutput(call: string, live: Live): void {
    const box = this.options.list.querySelector<HTMLElement>(`[data-live-output="${CSS.escape(call)}"]`);
    const pre = box?.querySelector("pre");
    if (!box || !pre) return;
    const isAtEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight <= NEAR;
    say(pre, liveText(live));
    box.hidden = !live.text;
    if (isAtEnd) pre.scrollTop = pre.scrollHeight;
  }
}

/** Parse lines rendered by our own server. */
function parse(html: string): HTMLElement[] {
  return [...new DOMParser().parseFromString(html, "text/html").body.children] as HTMLElement[];
}

function byKey(lines: readonly HTMLElement[]): Map<string, HTMLElement> {
  return new Map(lines.map((line) => [line.dataset["key"] ?? "", line]));
}

function prepare(line: HTMLElement): void {
  renderMarkdownIn(line);
  namePlatformKeys(line);
}

/** Let times be shown in the viewer's time zone. */
function tellTimes(line: HTMLElement | undefined): void {
  line?.dispatchEvent(new Event("times-shown", { bubbles: true }));
}

/** A line that a person edits isn't redrawn, unless the approval in it was answered. */
function isBeingEdited(line: HTMLElement, fresh: HTMLElement): boolean {
  if (line.hasAttribute("data-editing")) return true;
  const isApproval = fresh.querySelector("form[data-answer]") !== null;
  const fields = [...line.querySelectorAll<HTMLInputElement>("form[data-answer] :is(textarea, input)")];
  const isChanged = (one: HTMLInputElement): boolean =>
    one.value !== one.defaultValue || (one.checked ?? false) !== (one.defaultChecked ?? false);
  return isApproval && fields.some(isChanged);
}

function drawMessage(line: HTMLElement, message: OutgoingMessage): void {
  line.dataset["receipt"] = message.state;
  for (const part of line.querySelectorAll<HTMLElement>("[data-while]")) {
    part.hidden = part.dataset["while"] !== message.state;
  }
  say(requireElement(line, "[data-reason]"), message.reason);
}

/** Keys are named as on a PC; a Mac has ⌘ instead. */
function namePlatformKeys(root: ParentNode): void {
  if (!navigator.platform.startsWith("Mac")) return;
  for (const key of root.querySelectorAll("kbd")) say(key, (key.textContent ?? "").replace("Ctrl", "⌘"));
}
