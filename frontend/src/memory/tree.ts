import { walkAlong } from "../lib/walk.ts";

/** J and K move the focus along the documents, in the tree or in what a search found. */
export function walk(root: HTMLElement): () => void {
  root.querySelector(".tree [aria-current]")?.scrollIntoView?.({ block: "nearest" });
  return walkAlong(() => {
    const found = [...root.querySelectorAll<HTMLElement>(".hits [data-leaf]")];
    const leaves = found.length > 0 ? found : [...root.querySelectorAll<HTMLElement>("[data-leaf]")];
    return leaves.filter((leaf) => !leaf.closest("details:not([open])"));
  });
}
