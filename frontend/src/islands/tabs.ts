import type { Island } from "../lib/islands.ts";

/**
 * Scroll the current tab into view on narrow screens.
 *
 * Scrolls the row itself: after `scrollIntoView` the Tab key would start there.
 *
 * @example
 * <nav data-island="tabs"><a href="a/">A</a><a href="b/" aria-current="page">B</a></nav>
 */
export const tabs: Island = (root) => {
  const open = root.querySelector("[aria-current]")?.getBoundingClientRect();
  if (open) {
    const row = root.getBoundingClientRect();
    root.scrollLeft += open.left - row.left - (row.width - open.width) / 2;
  }
  return () => undefined;
};
