/** Draws formulas. KaTeX builds elements and sets their styles by script, as the content policy allows. */
import katex from "katex";
import "katex/dist/katex.css";

export function drawFormulas(root: HTMLElement): void {
  for (const code of root.querySelectorAll<HTMLElement>("code.math")) {
    const box = document.createElement("span");
    const isBlock = code.classList.contains("is-block");
    box.className = isBlock ? "formula is-block" : "formula";
    if (isBlock) box.tabIndex = 0;
    try {
      katex.render(code.textContent ?? "", box, {
        displayMode: isBlock,
        throwOnError: true,
        trust: false,
        maxExpand: 500,
        maxSize: 50,
        strict: "ignore",
      });
    } catch {
      code.classList.remove("math");
      continue;
    }
    code.replaceWith(box);
  }
}
