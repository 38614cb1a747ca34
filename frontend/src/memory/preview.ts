/** Markdown as it will be read, by the chat's own safe renderer. */
import { markdown, render } from "../chat/markdown.ts";
import { copyText } from "../chat/dom.ts";

/** Fills the box with the text's elements. */
export function preview(box: HTMLElement, text: string): void {
  const env = {};
  box.replaceChildren(render(markdown.parse(text, env), env));
  for (const button of box.querySelectorAll<HTMLElement>("[data-copy-code]")) {
    button.addEventListener("click", () => {
      const code = button.closest(".code-box")?.querySelector("pre");
      void copyText(code?.textContent ?? "", button);
    });
  }
}

/** For those who may only read: the text in its form, in place of its source. */
export function showPlain(root: HTMLElement): void {
  const plain = root.querySelector<HTMLElement>("[data-plain]");
  const box = root.querySelector<HTMLElement>("[data-preview-of]");
  if (!plain || !box) return;
  preview(box, plain.textContent ?? "");
  plain.hidden = true;
}
