import { fetchPart } from "../lib/part.ts";

/** Shows the sub-agents of a row below it. Without a script the link leads to the tree. */
export function folds(root: HTMLElement): () => void {
  /** The rows that a fold has brought, by its link; they may hold folds of their own. */
  const brought = new Map<HTMLElement, HTMLElement[]>();

  async function unfold(fold: HTMLElement): Promise<void> {
    const row = fold.closest<HTMLElement>("[data-row]");
    if (!row || fold.ariaBusy === "true") return;
    fold.ariaBusy = "true";
    try {
      const depth = Number(row.dataset["depth"] ?? 0) + 1;
      const part = await fetchPart(`${fold.dataset["fold"]}?depth=${depth}`);
      const rows = [...part.querySelectorAll<HTMLElement>("[data-row]")];
      brought.set(fold, rows);
      row.after(...rows);
      row.parentElement?.dispatchEvent(new Event("times-shown", { bubbles: true }));
      fold.ariaExpanded = "true";
    } catch {
      location.assign((fold as HTMLAnchorElement).href);
    } finally {
      fold.ariaBusy = null;
    }
  }

  function takeBack(fold: HTMLElement): void {
    for (const row of brought.get(fold) ?? []) {
      for (const inner of row.querySelectorAll<HTMLElement>("[data-fold]")) takeBack(inner);
      row.remove();
    }
    brought.delete(fold);
    fold.ariaExpanded = "false";
  }

  const onClick = (event: MouseEvent): void => {
    const fold = (event.target as Element).closest<HTMLElement>("[data-fold]");
    if (!fold || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    if (brought.has(fold)) takeBack(fold);
    else void unfold(fold);
  };

  for (const fold of root.querySelectorAll<HTMLElement>("[data-fold]")) {
    fold.role = "button";
    fold.ariaExpanded = "false";
  }
  root.addEventListener("click", onClick);
  return () => root.removeEventListener("click", onClick);
}
