import type { Island } from "../lib/islands.ts";

/**
 * Submit a small form when its choice changes. Without JavaScript its button does it.
 *
 * @example
 * <form data-island="auto-submit"><select name="role">…</select><button data-fallback>Save</button></form>
 */
export const autoSubmit: Island = (root) => {
  const form = root as HTMLFormElement;
  const fallback = form.querySelector<HTMLElement>("[data-fallback]");
  const send = (): void => form.requestSubmit();

  if (fallback) fallback.hidden = true;
  form.addEventListener("change", send);
  return () => form.removeEventListener("change", send);
};
