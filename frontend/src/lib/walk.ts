import { isTyping } from "./keys.ts";

/**
 * J and K move the focus along some rows: from the one that has it, else from the one that is shown.
 *
 * @param rows - Asked at every press, as lists change under the hand.
 * @param on - Told where the focus went.
 */
export function walkAlong(
  rows: () => HTMLElement[],
  on?: (row: HTMLElement) => void,
): () => void {
  const onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    const by = { j: 1, k: -1 }[event.key.toLowerCase()];
    const next = by && after(rows(), by);
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView?.({ block: "nearest" });
    on?.(next);
  };

  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

/** The row that is meant when none is named: the one with the focus in it, else the one that is shown. */
export function standing(rows: HTMLElement[]): HTMLElement | undefined {
  return (
    rows.find((row) => (row.closest("tr, li") ?? row).contains(document.activeElement)) ??
    rows.find((row) => row.ariaCurrent === "page" || row.closest("[data-shown]"))
  );
}

function after(rows: HTMLElement[], by: number): HTMLElement | undefined {
  const row = standing(rows);
  if (!row) return by > 0 ? rows[0] : rows.at(-1);
  return rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + by))];
}
