import type { Island } from "../lib/islands.ts";

/**
 * Brings the tab that is open into sight, where a narrow screen cannot show all of them.
 *
 * By the row's own scroll: after `scrollIntoView` the Tab key would begin there, not at the page's top.
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
