/** The entry of the session list's own script: keys, the pane beside the list, rows that unfold. */
import type { Island } from "../lib/islands.ts";
import { folds } from "./folds.ts";
import { pane } from "./pane.ts";
import { walk } from "./walk.ts";

/**
 * @example
 * <div data-island="browse"><table><tr data-row><td><a href="/sessions/1/" data-open="/sessions/1/preview/"
 *   data-export="/api/…/export/">Title</a></td></tr></table><aside data-pane hidden></aside><p data-said></p></div>
 */
const browse: Island = (root) => {
  const beside = pane(root);
  const cleanUps = [walk(root, beside.follow), folds(root), beside.cleanUp];
  return () => {
    for (const cleanUp of cleanUps) cleanUp();
  };
};

export default browse;
