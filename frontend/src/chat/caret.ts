/**
 * Marks the one element in which an answer is being written.
 *
 * A rule from the line downwards would do the same, and have all of the answer styled again at its end.
 */
export class Caret {
  private at: Element | null = null;

  /** To the end of what is said, or away. */
  move(said: Element | null): void {
    const next = said && placeIn(said);
    if (next === this.at) return;
    this.at?.removeAttribute("data-caret");
    next?.setAttribute("data-caret", "");
    this.at = next;
  }
}

/** The innermost element that ends in words; nothing where a mark after it would stand on its own. */
function placeIn(box: Element): Element | null {
  const last = box.lastElementChild;
  if (box.matches("li") && !last?.matches("p, ul, ol")) return box;
  if (last?.matches("p, h3, h4, h5, h6")) return last;
  if (last?.matches("ul, ol, li")) return placeIn(last);
  if (last?.matches(".code-box")) return last.querySelector("code");
  return null;
}
