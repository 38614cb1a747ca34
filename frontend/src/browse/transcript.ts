/** Entry of the session transcript: renders agent messages as Markdown. */
import type { Island } from "../lib/islands.ts";
import { renderMarkdown } from "../lib/markdown.ts";

/**
 * @example
 * <div data-island="markdown"><div data-markdown>Some **bold** words</div></div>
 */
const transcript: Island = (root) => {
  for (const text of root.querySelectorAll<HTMLElement>("[data-markdown]")) {
    renderMarkdown(text, text.textContent ?? "");
    text.dataset["rendered"] = "";
  }
  return () => undefined;
};

export default transcript;
