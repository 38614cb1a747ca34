import { requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { restWith } from "../lib/rest.ts";
import { problemReporter, type AttachmentTray, attachmentTray, upload } from "./attachments.ts";
import { newChatText } from "./composer.ts";
import { SessionStarter } from "./new-session.ts";

/**
 * The page that starts a chat: the composer names the chosen agent and sends on Enter.
 *
 * @example
 * <div data-island="chat"><input type="radio" name="agent" data-name="Coder" form="composer">
 *   <form id="composer"><textarea name="text"></textarea><button data-send>Send</button></form></div>
 */
export const start: Island = (root) => {
  const form = root.querySelector<HTMLFormElement>("#composer");
  const area = form?.querySelector<HTMLTextAreaElement>("textarea");
  const send = form?.querySelector<HTMLButtonElement>("[data-send]");
  if (!form || !area || !send) return () => undefined;
  const byTouch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  const listening = new AbortController();
  let isSending = false;
  let byPointer = false;
  const { signal } = listening;
  const complain = problemReporter(form.querySelector<HTMLElement>("[data-problem]") ?? document.createElement("p"));
  // Kept until the session has it, as sending can fail.
  const typed = newChatText(localStorage);
  const tray: AttachmentTray | undefined = attachmentTray(form, {
    ground: root,
    largest: Number(form.dataset["largest"]),
    onChange: changed,
    onProblem: complain,
  });
  const token = form.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
  const starter = new SessionStarter({
    rest: restWith(token),
    sessions: form.dataset["api"] ?? "",
    put: (api, file) => upload(api, token, file),
  });

  function changed(): void {
    send!.disabled = isSending || !area!.value.trim();
    typed.write(area!.value);
  }
  function onChoice(event: Event): void {
    const choice = event.target as HTMLInputElement;
    if (choice.name !== "agent" || !choice.dataset["name"]) return;
    area!.placeholder = `Message ${choice.dataset["name"]}`;
    // Arrow keys choose the next agent, so the focus stays there.
    if (byPointer && !byTouch) area!.focus();
  }
  function onRootKey(event: KeyboardEvent): void {
    byPointer = false;
    const target = event.target as HTMLElement;
    if (event.key === "Enter" && target.matches("[name=agent]")) {
      event.preventDefault();
      area!.focus();
    } else if (event.key === "Escape" && target === area) {
      area!.blur();
    }
  }
  function onKey(event: KeyboardEvent): void {
    const plain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.isComposing;
    if (event.key !== "Enter" || !plain || byTouch || !area!.value.trim()) return;
    event.preventDefault();
    form!.requestSubmit();
  }

  /** Choose the model of the chat that is about to begin. */
  async function onModel(event: MouseEvent): Promise<void> {
    const picker = (event.target as HTMLElement).closest<HTMLAnchorElement>("[data-model-picker]");
    if (!picker || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    const { openModelPicker } = await import("./model-picker.ts");
    await openModelPicker(picker.href, async ({ provider, model, name }) => {
      requireElement<HTMLInputElement>(form!, "[data-model-value]").value = model ? `${provider}/${model}` : "";
      say(requireElement(form!, "[data-model]"), name);
    });
  }

  /** Send with files by script: a form can't upload to a session that doesn't exist yet. */
  async function onSubmit(event: Event): Promise<void> {
    const files = tray?.held ?? [];
    if (!files.length) return;
    event.preventDefault();
    if (isSending) return;
    setSending(true);
    complain("");
    try {
      const agent = String(new FormData(form!).get("agent"));
      const model = String(new FormData(form!).get("model") ?? "");
      location.assign(`/chat/${await starter.send(agent, area!.value, files, model)}/`);
    } catch (fault) {
      complain((fault as Error).message);
      setSending(false);
    }
  }
  function setSending(on: boolean): void {
    isSending = on;
    changed();
  }

  form.addEventListener("submit", (event) => void onSubmit(event), { signal });
  root.addEventListener("change", onChoice, { signal });
  root.addEventListener("click", (event) => void onModel(event), { signal });
  root.addEventListener("pointerdown", () => (byPointer = true), { signal });
  root.addEventListener("keydown", onRootKey, { signal });
  area.addEventListener("input", changed, { signal });
  area.addEventListener("keydown", onKey, { signal });
  // A page restored from history may still be marked as sending.
  window.addEventListener("pageshow", (event) => event.persisted && setSending(false), { signal });
  if (!area.value) area.value = typed.read();
  changed();
  // The agent used last may be far down the list.
  root.querySelector("[name=agent]:checked")?.closest(".agent-card")?.scrollIntoView?.({ block: "nearest" });
  if (matchMedia("(hover: hover)").matches) area.focus({ preventScroll: true });
  return () => {
    listening.abort();
    tray?.close();
  };
};
