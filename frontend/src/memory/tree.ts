import { isTyping } from "../lib/keys.ts";

/** J and K move the focus along the documents, in the tree or in what a search found. */
export function walk(root: HTMLElement): () => void {
  const shown = (): HTMLElement[] => {
    const found = [...root.querySelectorAll<HTMLElement>(".hits [data-leaf]")];
    const leaves = found.length > 0 ? found : [...root.querySelectorAll<HTMLElement>("[data-leaf]")];
    return leaves.filter((leaf) => !leaf.closest("details:not([open])"));
  };

  const onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    const by = { j: 1, k: -1 }[event.key];
    const leaves = shown();
    if (!by || leaves.length === 0) return;
    const focused = leaves.indexOf(document.activeElement as HTMLElement);
    const from = focused >= 0 ? focused : leaves.findIndex((leaf) => leaf.ariaCurrent === "page");
    const at = from < 0 ? (by > 0 ? 0 : leaves.length - 1) : from + by;
    const next = leaves[Math.max(0, Math.min(leaves.length - 1, at))];
    next?.focus();
    next?.scrollIntoView?.({ block: "nearest" });
    event.preventDefault();
  };

  root.querySelector(".tree [aria-current]")?.scrollIntoView?.({ block: "nearest" });
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
