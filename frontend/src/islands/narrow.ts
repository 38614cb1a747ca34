import type { Island } from "../lib/islands.ts";

/**
 * Shows of a long list only what has all the words that are typed, wherever in it they stand.
 *
 * @example
 * <input type="search" data-island="narrow" data-in="#rows > tr" data-none="nothing"> <p id="nothing" hidden>…</p>
 */
export const narrow: Island = (root) => {
  const field = root as HTMLInputElement;
  const none = document.getElementById(field.dataset["none"] ?? "");

  function look(): void {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...document.querySelectorAll<HTMLElement>(field.dataset["in"] ?? "")];
    for (const row of rows) {
      const text = (row.textContent ?? "").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    if (none) none.hidden = rows.some((row) => !row.hidden);
  }

  field.addEventListener("input", look);
  // Browsers keep what was typed when a page is loaded again.
  look();
  return () => field.removeEventListener("input", look);
};
