import type { Island } from "../lib/islands.ts";

/**
 * Enter sends a form with one text, as in the chat; with Shift, and where one types by touch, it begins a line.
 *
 * A form that is on its way is not sent again, as each time would make another thing.
 *
 * @example
 * <form data-island="enter"><textarea name="text"></textarea><button>Build it</button></form>
 */
export const enter: Island = (root) => {
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
  // Whoever comes back by the browser's history may send another.
  window.addEventListener("pageshow", () => (isSent = false), { signal });
  return () => listening.abort();
};
