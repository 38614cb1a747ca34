import type { Island } from "../lib/islands.ts";

/**
 * Brings the tab that is open into sight, where a narrow screen cannot show all of them.
 *
 * @example
 * <nav data-island="tabs"><a href="a/">A</a><a href="b/" aria-current="page">B</a></nav>
 */
export const tabs: Island = (root) => {
  root.querySelector("[aria-current]")?.scrollIntoView?.({ inline: "center", block: "nearest" });
  return () => undefined;
};
