/** The actions of a chat's lines. */
import { copyText, requireElement } from "../lib/dom.ts";
import type { Action } from "./actions.ts";
import { markdownBox } from "./markdown-box.ts";
import type { NewMessage } from "./new-session.ts";
import type { SessionClient } from "./session-client.ts";
import { copyTemplate } from "./transcript.ts";
import type { Attached } from "./types.ts";

interface LineActionOptions {
  client: SessionClient;
  templates: ParentNode;
  /** Fork after an event, and send a message there. */
  fork: (atSeq: number, message?: NewMessage) => Promise<void>;
  /** Send another message in place of the one after an event. */
  branch: (atSeq: number, message: NewMessage) => Promise<void>;
  /** Put a message that failed back into the composer. */
  reword: (message: NewMessage) => void;
  openPreview: (button: HTMLElement) => Promise<void>;
}

/** Actions that change nothing, which a read-only transcript has too. */
export function readingActions(client: SessionClient): Record<string, Action> {
  return {
    copy: (button, line) => copyText(markdownBox(requireElement(line, "[data-markdown]")).source, button),
    "copy-part": (button) => copyText(outputIn(button).textContent ?? "", button),
    "whole-output": async (button) => {
      outputIn(button).textContent = await client.wholeOutput(Number(button.dataset["at"]));
      button.remove();
    },
    summary: (button, line) => toggleSummary(client, button, line),
  };
}

function outputIn(button: HTMLElement): HTMLElement {
  return requireElement(requireClosest(button, "[data-part]"), "pre");
}

export function lineActions(options: LineActionOptions): Record<string, Action> {
  const { client, fork, branch } = options;
  const outgoing = (line: HTMLElement): string => line.dataset["outgoing"] ?? "";
  return {
    ...readingActions(client),
    fork: (button) => fork(Number(button.dataset["at"])),
    edit: (_button, line) => beginEditing(line, options.templates),
    "cancel-edit": (_button, line) => endEditing(line),
    "send-edit": async (_button, line) => {
      const text = requireElement<HTMLTextAreaElement>(line, "[data-text] textarea").value;
      if (text.trim()) await branch(seqOf(line) - 1, { text, files: filesOf(line) });
    },
    regenerate: async (_button, line) => {
      const question = questionBefore(line);
      if (!question) throw new Error("Load earlier messages first.");
      await branch(seqOf(question) - 1, messageIn(question));
    },
    retry: (button) => client.retry(valueOf(button)),
    continue: (button) => {
      (button as HTMLButtonElement).disabled = true;
      client.send(valueOf(button), "followup");
    },
    undo: (button) => client.undo(valueOf(button)),
    verify: (button) => client.verify(callOf(button), button.dataset["tookEffect"] === "true"),
    "run-again": (button) => client.runAgain(callOf(button)),
    preview: (button) => options.openPreview(button),
    resend: (_button, line) => client.resend(outgoing(line)),
    discard: (_button, line) => client.forget(outgoing(line)),
    reword: (_button, line) => {
      const message = client.state.outbox.find((one) => one.id === outgoing(line));
      client.forget(outgoing(line));
      if (message) options.reword(message);
    },
  };
}

async function toggleSummary(client: SessionClient, button: HTMLElement, line: HTMLElement): Promise<void> {
  const summary = requireElement<HTMLElement>(line, "[data-summary]");
  const opens = summary.hidden;
  if (opens && !summary.textContent) summary.textContent = await client.summary(button.dataset["snapshot"] ?? "");
  summary.hidden = !opens;
  button.setAttribute("aria-expanded", String(opens));
  for (const words of button.querySelectorAll<HTMLElement>("[data-when]")) {
    words.hidden = (words.dataset["when"] === "open") !== opens;
  }
  if (opens) summary.scrollIntoView?.({ block: "center" });
}

// --- Messages of people

function seqOf(line: HTMLElement): number {
  return Number(line.dataset["seq"]);
}

function filesOf(line: HTMLElement): Attached[] {
  return JSON.parse(line.dataset["attachments"] ?? "[]") as Attached[];
}

/** Return the text of a message as its author wrote it. */
export function sourceOf(line: ParentNode): string {
  const bubble = line.querySelector<HTMLElement>("[data-text]");
  return bubble?.matches("[data-markdown]") ? markdownBox(bubble).source : (bubble?.textContent ?? "");
}

function messageIn(line: HTMLElement): NewMessage {
  return { text: sourceOf(line), files: filesOf(line) };
}

/** Return the last stored message of a person before a line. */
function questionBefore(line: HTMLElement): HTMLElement | undefined {
  const scope: ParentNode = line.closest("[data-island]") ?? document;
  const questions = [...scope.querySelectorAll<HTMLElement>("[data-key][data-seq]:has([data-text])")];
  return questions.findLast(
    (one) => line.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING,
  );
}

/** Turn the text of a message into an editor. */
function beginEditing(line: HTMLElement, templates: ParentNode): void {
  const bubble = requireElement<HTMLElement>(line, "[data-text]");
  const text = sourceOf(line);
  const editor = copyTemplate(templates, "editor");
  const area = requireElement<HTMLTextAreaElement>(editor, "textarea");
  area.value = text;
  area.defaultValue = text;
  area.addEventListener("keydown", (event) => onEditorKey(event, line));
  bubble.replaceChildren(editor);
  line.toggleAttribute("data-editing", true);
  area.focus();
}

function onEditorKey(event: KeyboardEvent, line: HTMLElement): void {
  if (event.isComposing) return;
  if (event.key === "Escape") {
    event.preventDefault();
    event.stopPropagation();
    endEditing(line);
  } else if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    requireElement<HTMLElement>(line, "[data-action=send-edit]").click();
  }
}

function endEditing(line: HTMLElement): void {
  const bubble = requireElement<HTMLElement>(line, "[data-text]");
  const text = requireElement<HTMLTextAreaElement>(bubble, "textarea").defaultValue;
  if (bubble.matches("[data-markdown]")) markdownBox(bubble).redraw();
  else bubble.textContent = text;
  line.removeAttribute("data-editing");
  line.querySelector<HTMLElement>("[data-action=edit]")?.focus();
}

function valueOf(button: HTMLElement): string {
  return (button as HTMLButtonElement).value;
}

function callOf(button: HTMLElement): string {
  return button.dataset["call"] ?? "";
}

function requireClosest(from: HTMLElement, selector: string): HTMLElement {
  const found = from.closest<HTMLElement>(selector);
  if (!found) throw new Error(`The page lacks ${selector}.`);
  return found;
}
