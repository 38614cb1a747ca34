import type { Island } from "../lib/islands.ts";

const ITEMS = "a[href], button:not([disabled]), input:not([type=hidden]), select";

/**
 * Make a `<details>` behave as a menu: close on Escape and outside clicks, move with arrow keys.
 *
 * @example
 * <details class="menu-box" data-island="menu"><summary>Account</summary><div class="menu-panel">…</div></details>
 */
export const menu: Island = (root) => {
  const box = root as HTMLDetailsElement;
  const summary = box.querySelector("summary");

  const onPointer = (event: Event): void => {
    if (box.open && !box.contains(event.target as Node)) box.open = false;
  };
  const onFocusOut = (event: FocusEvent): void => {
    if (event.relatedTarget && !box.contains(event.relatedTarget as Node)) box.open = false;
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!box.open) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      box.open = false;
      summary?.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (move(box, event.key === "ArrowDown" ? 1 : -1)) event.preventDefault();
    }
  };

  document.addEventListener("pointerdown", onPointer);
  box.addEventListener("focusout", onFocusOut);
  box.addEventListener("keydown", onKey);
  return () => {
    document.removeEventListener("pointerdown", onPointer);
    box.removeEventListener("focusout", onFocusOut);
    box.removeEventListener("keydown", onKey);
  };
};

/** Move the focus by one item, wrapping around. A select keeps its own arrow keys. */
function move(box: HTMLElement, by: 1 | -1): boolean {
  if (document.activeElement instanceof HTMLSelectElement) return false;
  const items = [...box.querySelectorAll<HTMLElement>(ITEMS)];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (by > 0 ? 0 : -1) : (at + by) % items.length;
  items.at(next)?.focus();
  return items.length > 0;
}
