import type { Island } from "../lib/islands.ts";
import { restWith } from "../lib/rest.ts";
import { Beginning } from "./beginning.ts";
import { complaint, trayIn, type Tray } from "./tray.ts";
import { firstTyped } from "./typed.ts";
import { upload } from "./upload.ts";

/**
 * The page on which a conversation begins: the composer names the chosen agent and sends on Enter.
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
  const complain = complaint(form.querySelector<HTMLElement>("[data-problem]") ?? document.createElement("p"));
  // Kept until its session has it: the way there may break.
  const typed = firstTyped(localStorage);
  const tray: Tray | undefined = trayIn(form, {
    ground: root,
    largest: Number(form.dataset["largest"]),
    onChange: changed,
    onProblem: complain,
  });
  const token = form.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
  const beginning = new Beginning({
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
    // The arrows go on to the next agent, so with them the focus stays.
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

  /** A form carries no files of a session that is not there. */
  async function onSubmit(event: Event): Promise<void> {
    const files = tray?.held ?? [];
    if (!files.length) return;
    event.preventDefault();
    if (isSending) return;
    setSending(true);
    complain("");
    try {
      const agent = String(new FormData(form!).get("agent"));
      location.assign(`/chat/${await beginning.send(agent, area!.value, files)}/`);
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
  root.addEventListener("pointerdown", () => (byPointer = true), { signal });
  root.addEventListener("keydown", onRootKey, { signal });
  area.addEventListener("input", changed, { signal });
  area.addEventListener("keydown", onKey, { signal });
  // Whoever comes back finds the page as it was left, and it was left while sending.
  window.addEventListener("pageshow", (event) => event.persisted && setSending(false), { signal });
  if (!area.value) area.value = typed.read();
  changed();
  // Among many agents the one that was talked to last may be far below.
  root.querySelector("[name=agent]:checked")?.closest(".agent-card")?.scrollIntoView?.({ block: "nearest" });
  if (matchMedia("(hover: hover)").matches) area.focus({ preventScroll: true });
  return () => {
    listening.abort();
    tray?.close();
  };
};
