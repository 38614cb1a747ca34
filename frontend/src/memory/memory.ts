/** The entry of the memory page's own script: the tree, the editor with its preview, the merge. */
import type { Island } from "../lib/islands.ts";
import { editor } from "./editor.ts";
import { merge } from "./merge.ts";
import { showPlain } from "./plain.ts";
import { walk } from "./tree.ts";

const memory: Island = (root) => {
  const cleanUps = [walk(root)];
  const form = root.querySelector<HTMLFormElement>("[data-editor]");
  if (form) cleanUps.push(editor(form));
  const merging = root.querySelector<HTMLFormElement>("[data-merge]");
  if (merging) cleanUps.push(merge(root, merging));
  showPlain(root);
  return () => {
    for (const cleanUp of cleanUps) cleanUp();
  };
};

export default memory;
