/** For those who may only read a document: the text in its form, in place of its source. */
import { showProse } from "../lib/prose.ts";

export function showPlain(root: HTMLElement): void {
  const plain = root.querySelector<HTMLElement>("[data-plain]");
  const box = root.querySelector<HTMLElement>("[data-preview-of]");
  if (!plain || !box) return;
  showProse(box, plain.textContent ?? "");
  plain.hidden = true;
}
