import type { Island } from "../lib/islands.ts";

/**
 * Sends a small form as soon as its choice changes. Without a script its button does it.
 *
 * @example
 * <form data-island="submit"><select name="role">…</select><button data-fallback>Save</button></form>
 */
export const submit: Island = (root) => {
  const form = root as HTMLFormElement;
  const fallback = form.querySelector<HTMLElement>("[data-fallback]");
  const send = (): void => form.requestSubmit();

  if (fallback) fallback.hidden = true;
  form.addEventListener("change", send);
  return () => form.removeEventListener("change", send);
};
