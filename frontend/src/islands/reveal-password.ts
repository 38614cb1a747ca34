import type { Island } from "../lib/islands.ts";

/**
 * Show or hide the text of a password field.
 *
 * @example
 * <input type="password" id="p"> <button type="button" data-island="reveal-password" aria-controls="p"><span>Show</span></button>
 */
export const revealPassword: Island = (root) => {
  const input = document.getElementById(root.getAttribute("aria-controls") ?? "");
  if (!(input instanceof HTMLInputElement)) throw new Error("reveal needs aria-controls, an input.");

  function show(shown: boolean): void {
    (input as HTMLInputElement).type = shown ? "text" : "password";
    root.setAttribute("aria-pressed", String(shown));
    (root.firstElementChild ?? root).textContent = shown ? "Hide" : "Show";
  }
  const toggle = (): void => show(input.type === "password");
  // Browsers offer to save a password only from a password field.
  const hide = (): void => show(false);

  root.addEventListener("click", toggle);
  input.form?.addEventListener("submit", hide);
  return () => {
    root.removeEventListener("click", toggle);
    input.form?.removeEventListener("submit", hide);
  };
};
