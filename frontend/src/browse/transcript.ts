/** Entry of the session transcript: renders agent messages as Markdown. */
import type { Island } from "../lib/islands.ts";
import { renderMarkdown } from "../lib/markdown.ts";

/**
 * @example
 * <div data-island="markdown"><div class="said is-plain">Some **bold** words</div></div>
 */
const transcript: Island = (root) => {
  for (const said of root.querySelectorAll<HTMLElement>(".said.is-plain")) {
    renderMarkdown(said, said.textContent ?? "");
    said.classList.remove("is-plain");
  }
  return () => undefined;
};

export default transcript;
