import type { Island } from "../lib/islands.ts";

/**
 * Submit a form on Enter, as in the chat. Shift+Enter, and Enter on touch screens, start a new
 * line.
 *
 * A form is submitted only once, as each submission creates something.
 *
 * @example
 * <form data-island="enter-submit"><textarea name="text"></textarea><button>Build it</button></form>
 */
export const enterSubmit: Island = (root) => {
  const form = root as HTMLFormElement;
  const byTouch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  const listening = new AbortController();
  const { signal } = listening;
  let isSent = false;

  function onKey(event: KeyboardEvent): void {
    const area = event.target as HTMLTextAreaElement;
    const plain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.isComposing;
    if (event.key !== "Enter" || !plain || byTouch || !area.matches("textarea")) return;
    event.preventDefault();
    if (area.value.trim()) form.requestSubmit();
  }
  function onSubmit(event: SubmitEvent): void {
    if (isSent) event.preventDefault();
    isSent = true;
  }

  form.addEventListener("keydown", onKey, { signal });
  form.addEventListener("submit", onSubmit, { signal });
  // A page restored from history can be submitted again.
  window.addEventListener("pageshow", () => (isSent = false), { signal });
  return () => listening.abort();
};
