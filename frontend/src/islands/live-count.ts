import { listenTo } from "../lib/bells.ts";
import type { Island } from "../lib/islands.ts";

const MOST_SHOWN = 99;

/**
 * A number that is kept right while the page is open: how many items are unread, how many wait.
 *
 * @example
 * <span class="rail-count" data-island="live-count" data-socket="/ws/approvals/" data-member="pending" hidden></span>
 */
export const liveCount: Island = (root) =>
  listenTo(root.dataset["socket"] ?? "", (text) => {
    const count = countIn(text, root.dataset["member"] ?? "");
    if (count === null) return;
    root.textContent = count > MOST_SHOWN ? `${MOST_SHOWN}+` : String(count);
    root.hidden = count === 0;
  });

/** The count that a message carries; null when it is about something else. */
export function countIn(text: string, member: string): number | null {
  const count = (JSON.parse(text) as Record<string, unknown>)[member];
  return typeof count === "number" ? count : null;
}
