import type { Island } from "../lib/islands.ts";
import { isCommand } from "../lib/keys.ts";

const KEY = "inspector";

/**
 * Toggle the inspector with ⌘/Ctrl+. or its button, and remember it in this browser.
 *
 * @example
 * <button data-inspector aria-expanded="true">Inspector</button>
 * <aside class="inspector" data-island="inspector">…</aside>
 */
export const inspector: Island = (root) => {
  if (!root.firstElementChild) return () => undefined;
  const button = document.querySelector<HTMLElement>("[data-inspector]");

  function show(open: boolean): void {
    root.toggleAttribute("data-closed", !open);
    button?.setAttribute("aria-expanded", String(open));
  }
  function toggle(): void {
    const open = root.hasAttribute("data-closed");
    localStorage.setItem(KEY, open ? "open" : "closed");
    show(open);
  }

  const onKey = (event: KeyboardEvent): void => {
    if (!isCommand(event, ".")) return;
    event.preventDefault();
    toggle();
  };

  // On a phone it covers the page, so it starts closed.
  const narrow = matchMedia("(max-width: 47.99rem)").matches;
  show(!narrow && localStorage.getItem(KEY) !== "closed");
  button?.addEventListener("click", toggle);
  document.addEventListener("keydown", onKey);
  return () => {
    button?.removeEventListener("click", toggle);
    document.removeEventListener("keydown", onKey);
  };
};
