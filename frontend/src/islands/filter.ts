import type { Island } from "../lib/islands.ts";

/**
 * Show only the rows of a list that contain all the words typed.
 *
 * @example
 * <input type="search" data-island="filter" data-in="#rows > tr" data-none="nothing"> <p id="nothing" hidden>…</p>
 */
export const filter: Island = (root) => {
  const field = root as HTMLInputElement;
  const none = document.getElementById(field.dataset["none"] ?? "");

  function update(): void {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...document.querySelectorAll<HTMLElement>(field.dataset["in"] ?? "")];
    for (const row of rows) {
      const text = (row.textContent ?? "").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    if (none) none.hidden = rows.some((row) => !row.hidden);
  }

  field.addEventListener("input", update);
  // Browsers restore typed text on reload.
  update();
  return () => field.removeEventListener("input", update);
};
