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

  // On a phone it is a sheet that covers the page.
  const isSheet = (): boolean => matchMedia("(max-width: 47.99rem)").matches;

  const onKey = (event: KeyboardEvent): void => {
    const isOpen = !root.hasAttribute("data-closed");
    if (event.key === "Escape" && isOpen && isSheet() && !document.querySelector("dialog[open]")) {
      // Escape closes the sheet. The chat behind it must not take it as "stop".
      event.preventDefault();
      show(false);
      button?.focus();
    } else if (isCommand(event, ".")) {
      event.preventDefault();
      toggle();
    }
  };

  show(!isSheet() && localStorage.getItem(KEY) !== "closed");
  button?.addEventListener("click", toggle);
  // Before the handlers of the page behind the sheet.
  document.addEventListener("keydown", onKey, true);
  return () => {
    button?.removeEventListener("click", toggle);
    document.removeEventListener("keydown", onKey, true);
  };
};
