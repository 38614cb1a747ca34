/** Shows Markdown in its form, by the safe renderer of all pages. */
import { copyText } from "./dom.ts";
import { markdown, render } from "./markdown.ts";

/** Fills the box with the text's elements. */
export function showProse(box: HTMLElement, text: string): void {
  const env = {};
  box.replaceChildren(render(markdown.parse(text, env), env));
  for (const button of box.querySelectorAll<HTMLElement>("[data-copy-code]")) {
    button.addEventListener("click", () => {
      const code = button.closest(".code-box")?.querySelector("pre");
      void copyText(code?.textContent ?? "", button);
    });
  }
}
