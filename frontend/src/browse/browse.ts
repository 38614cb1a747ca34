/** Entry of the session list: keyboard, preview pane and expandable rows. */
import type { Island } from "../lib/islands.ts";
import { isForPage, currentRow, moveWithKeys } from "../lib/keys.ts";
import { fetchPart, isAbort } from "../lib/pages.ts";

/**
 * @example
 * <div data-island="browse"><table><tr data-row><td><a href="/sessions/1/" data-open="/sessions/1/preview/"
 *   data-export="/api/…/export/">Title</a></td></tr></table><aside data-pane hidden></aside><p data-said></p></div>
 */
const browse: Island = (root) => {
  const preview = pane(root);
  const cleanUps = [navigate(root, preview.follow), folds(root), preview.cleanUp];
  return () => {
    for (const cleanUp of cleanUps) cleanUp();
  };
};

export default browse;

interface Pane {
  /** Show another row if the pane is open. */
  follow: (link: HTMLElement) => void;
  cleanUp: () => void;
}

const NARROW = "(max-width: 63.99rem)";

/** Open a row beside the list. A second press, or a narrow screen, follows the link to its page. */
export function pane(root: HTMLElement): Pane {
  const box = root.querySelector<HTMLElement>("[data-pane]");
  const said = root.querySelector<HTMLElement>("[data-said]");
  if (!box) throw new Error("browse needs a [data-pane].");
  let shown: HTMLElement | undefined;
  let request: AbortController | undefined;

  async function open(link: HTMLElement): Promise<void> {
    request?.abort();
    request = new AbortController();
    mark(link);
    try {
      const part = await fetchPart(link.dataset["open"] ?? "", { signal: request.signal });
      box!.replaceChildren(...part.body.childNodes);
      box!.dispatchEvent(new Event("times-shown", { bubbles: true }));
      box!.hidden = false;
      box!.scrollTop = 0;
      if (said) said.textContent = `Showing preview of ${link.textContent}.`;
    } catch (fault) {
      if (isAbort(fault)) return;
      location.assign((link as HTMLAnchorElement).href);
    }
  }

  function mark(link: HTMLElement | undefined): void {
    shown?.closest("[data-row]")?.removeAttribute("data-shown");
    shown = link;
    shown?.closest("[data-row]")?.setAttribute("data-shown", "");
  }

  function close(): void {
    request?.abort();
    const link = shown;
    mark(undefined);
    box!.hidden = true;
    box!.replaceChildren();
    link?.focus();
  }

  const onClick = (event: MouseEvent): void => {
    const target = event.target as Element;
    if (target.closest("[data-close]")) return close();
    const link = target.closest<HTMLElement>("[data-open]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!link || !plain || link === shown || matchMedia(NARROW).matches) return;
    event.preventDefault();
    void open(link);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || box.hidden || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    close();
  };

  root.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  return {
    follow: (link) => {
      if (!box.hidden && link !== shown) void open(link);
    },
    cleanUp: () => {
      request?.abort();
      root.removeEventListener("click", onClick);
      document.removeEventListener("keydown", onKey);
    },
  };
}

/** Show the sub-agents of a row below it. Without JavaScript the link opens the tree. */
export function folds(root: HTMLElement): () => void {
  /** Rows added by each fold; they can contain folds themselves. */
  const childRows = new Map<HTMLElement, HTMLElement[]>();

  async function expand(fold: HTMLElement): Promise<void> {
    const row = fold.closest<HTMLElement>("[data-row]");
    if (!row || fold.ariaBusy === "true") return;
    fold.ariaBusy = "true";
    try {
      const depth = Number(row.dataset["depth"] ?? 0) + 1;
      const part = await fetchPart(`${fold.dataset["fold"]}?depth=${depth}`);
      const rows = [...part.querySelectorAll<HTMLElement>("[data-row]")];
      childRows.set(fold, rows);
      row.after(...rows);
      row.parentElement?.dispatchEvent(new Event("times-shown", { bubbles: true }));
      fold.ariaExpanded = "true";
    } catch {
      location.assign((fold as HTMLAnchorElement).href);
    } finally {
      fold.ariaBusy = null;
    }
  }

  function collapse(fold: HTMLElement): void {
    for (const row of childRows.get(fold) ?? []) {
      for (const inner of row.querySelectorAll<HTMLElement>("[data-fold]")) collapse(inner);
      row.remove();
    }
    childRows.delete(fold);
    fold.ariaExpanded = "false";
  }

  const onClick = (event: MouseEvent): void => {
    const fold = (event.target as Element).closest<HTMLElement>("[data-fold]");
    if (!fold || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    if (childRows.has(fold)) collapse(fold);
    else void expand(fold);
  };

  for (const fold of root.querySelectorAll<HTMLElement>("[data-fold]")) {
    fold.role = "button";
    fold.ariaExpanded = "false";
  }
  root.addEventListener("click", onClick);
  return () => root.removeEventListener("click", onClick);
}

/** Move with J and K and export the focused row with E. Enter follows its link. */
export function navigate(root: HTMLElement, follow: (link: HTMLElement) => void): () => void {
  const links = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>("[data-open]")];

  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "e" || !isForPage(event)) return;
    const url = currentRow(links())?.dataset["export"];
    if (!url) return;
    event.preventDefault();
    location.assign(url);
  };

  document.addEventListener("keydown", onKey);
  const stopMoving = moveWithKeys(links, follow);
  return () => {
    document.removeEventListener("keydown", onKey);
    stopMoving();
  };
}
