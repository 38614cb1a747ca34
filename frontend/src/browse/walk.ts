import { isTyping } from "../lib/keys.ts";

/** J and K move along the rows, E exports the one that has the focus; Enter presses its link. */
export function walk(root: HTMLElement, follow: (link: HTMLElement) => void): () => void {
  const links = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>("[data-open]")];

  function move(by: number): void {
    const rows = links();
    const focused = rows.indexOf(document.activeElement as HTMLElement);
    const from =
      focused >= 0 ? focused : rows.findIndex((row) => row.closest("[data-shown]") !== null);
    const at = from < 0 ? (by > 0 ? 0 : rows.length - 1) : from + by;
    const next = rows[Math.max(0, Math.min(rows.length - 1, at))];
    if (!next) return;
    next.focus();
    next.scrollIntoView?.({ block: "nearest" });
    follow(next);
  }

  function take(): boolean {
    const rows = links();
    const row =
      rows.find((one) => one === document.activeElement) ??
      rows.find((one) => one.closest("[data-shown]"));
    const url = row?.dataset["export"];
    if (url) location.assign(url);
    return url !== undefined;
  }

  const onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    const by = { j: 1, k: -1 }[event.key];
    if (by) move(by);
    else if (event.key !== "e" || !take()) return;
    event.preventDefault();
  };

  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
