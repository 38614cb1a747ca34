import type { Island } from "../lib/islands.ts";

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
  const { signal } = listening;

  function changed(): void {
    send!.disabled = !area!.value.trim();
  }
  function onChoice(event: Event): void {
    const choice = event.target as HTMLInputElement;
    if (choice.name !== "agent" || !choice.dataset["name"]) return;
    area!.placeholder = `Message ${choice.dataset["name"]}`;
    if (event.isTrusted && !byTouch && matchMedia("(pointer: fine)").matches) area!.focus();
  }
  function onKey(event: KeyboardEvent): void {
    const plain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.isComposing;
    if (event.key !== "Enter" || !plain || byTouch || !area!.value.trim()) return;
    event.preventDefault();
    form!.requestSubmit();
  }

  root.addEventListener("change", onChoice, { signal });
  area.addEventListener("input", changed, { signal });
  area.addEventListener("keydown", onKey, { signal });
  changed();
  return () => listening.abort();
};
