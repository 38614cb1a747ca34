/** Colours code blocks, draws diagrams in place, and offers a preview of what can be shown. */
import hljs from "highlight.js/lib/common";
import { button } from "../lib/dom.ts";
import { purifyCode } from "../lib/markdown.ts";
import { contentFrame } from "./content-frame.ts";
import { PREVIEW, type PreviewRequest } from "./preview.ts";

/** Longer code stays plain: colouring it would hold up the page. */
const MOST_CHARACTERS = 60_000;
/** What a code block of these languages can be previewed as. */
const PREVIEWS: Record<string, string> = {
  html: "html", svg: "svg", xml: "svg", md: "markdown", markdown: "markdown", csv: "csv", tsv: "csv",
};

export function enrichCode(root: HTMLElement): void {
  for (const box of root.querySelectorAll<HTMLElement>(".code-box[data-language]:not([data-rich])")) {
    box.dataset["rich"] = "";
    const language = box.dataset["language"] ?? "";
    const code = box.querySelector("code");
    const text = code?.textContent ?? "";
    if (!code || !text) continue;
    if (language === "mermaid") drawDiagram(box, text);
    else if (hljs.getLanguage(language) && text.length <= MOST_CHARACTERS) {
      code.replaceChildren(purifyCode(hljs.highlight(text, { language, ignoreIllegals: true }).value));
    }
    const kind = PREVIEWS[language];
    if (kind && (kind !== "svg" || text.includes("<svg"))) {
      const show = button("Preview", () => {
        const detail: PreviewRequest = { kind, text };
        box.dispatchEvent(new CustomEvent(PREVIEW, { detail, bubbles: true }));
      }, { class: "btn btn-bare btn-sm" });
      box.querySelector(".code-head > .btn")?.before(show);
    }
  }
}

/** Show a diagram in place of its code, which a button brings back. */
function drawDiagram(box: HTMLElement, text: string): void {
  const pre = box.querySelector("pre")!;
  const frame = contentFrame({ kind: "mermaid", text }, "Diagram", () => {
    frame.remove();
    toggle.remove();
    pre.hidden = false;
  });
  const toggle = button("Show code", () => {
    pre.hidden = !pre.hidden;
    frame.hidden = !pre.hidden;
    toggle.textContent = pre.hidden ? "Show code" : "Show diagram";
  }, { class: "btn btn-bare btn-sm" });
  pre.hidden = true;
  box.querySelector(".code-head > .btn")?.before(toggle);
  box.append(frame);
}
