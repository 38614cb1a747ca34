/** The entry of the transcript's own script: what agents wrote, in its form instead of its source. */
import type { Island } from "../lib/islands.ts";
import { showProse } from "../lib/prose.ts";

/**
 * @example
 * <div data-island="reading"><div class="said is-plain">Some **bold** words</div></div>
 */
const reading: Island = (root) => {
  for (const said of root.querySelectorAll<HTMLElement>(".said.is-plain")) {
    showProse(said, said.textContent ?? "");
    said.classList.remove("is-plain");
  }
  return () => undefined;
};

export default reading;
