/** Entry of the memory pages: the tree, the editor with its preview, and the merge. */
import { requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { isCommand, moveWithKeys } from "../lib/keys.ts";
import { renderMarkdown } from "../lib/markdown.ts";
import { editor } from "./editor.ts";

const memory: Island = (root) => {
  const cleanUps = [navigate(root)];
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

/**
 * Move the focus through the visible documents with J and K: the search results if there are any,
 * else the tree.
 */
export function navigate(root: HTMLElement): () => void {
  root.querySelector(".tree [aria-current]")?.scrollIntoView?.({ block: "nearest" });
  return moveWithKeys(() => {
    const found = [...root.querySelectorAll<HTMLElement>(".hits [data-leaf]")];
    const leaves = found.length > 0 ? found : [...root.querySelectorAll<HTMLElement>("[data-leaf]")];
    return leaves.filter((leaf) => !leaf.closest("details:not([open])"));
  });
}

// --- Read-only view: the document rendered as Markdown

export function showPlain(root: HTMLElement): void {
  const plain = root.querySelector<HTMLElement>("[data-plain]");
  const box = root.querySelector<HTMLElement>("[data-preview-of]");
  if (!plain || !box) return;
  renderMarkdown(box, plain.textContent ?? "");
  plain.hidden = true;
}

const CONFLICT_MARKER = /^(?:<<<<<<< mine|=======|>>>>>>> theirs)$/m;

/** The merge page: uses one side's text and checks for conflict markers. */
export function merge(root: HTMLElement, form: HTMLFormElement): () => void {
  const text = requireElement<HTMLTextAreaElement>(form, "[data-text]");
  const status = requireElement<HTMLElement>(form, "[data-status]");

  function tell(): void {
    say(status, CONFLICT_MARKER.test(text.value) ? "Resolve the remaining conflicts" : "");
  }
  const onClick = (event: Event): void => {
    const button = (event.target as Element).closest<HTMLElement>("[data-take]");
    const source = button && document.getElementById(button.dataset["take"] ?? "");
    if (!(source instanceof HTMLTextAreaElement)) return;
    text.value = source.value;
    tell();
    text.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!isCommand(event, "s")) return;
    event.preventDefault();
    form.requestSubmit();
  };

  tell();
  root.addEventListener("click", onClick);
  text.addEventListener("input", tell);
  document.addEventListener("keydown", onKey);
  return () => {
    root.removeEventListener("click", onClick);
    text.removeEventListener("input", tell);
    document.removeEventListener("keydown", onKey);
  };
}
