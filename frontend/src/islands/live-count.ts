import type { Island } from "../lib/islands.ts";
import { subscribe } from "../lib/socket.ts";

const MOST_SHOWN = 99;

/**
 * Keep a count up to date while the page is open.
 *
 * @example
 * <span class="rail-count" data-island="live-count" data-socket="/ws/approvals/" data-member="pending" hidden></span>
 */
export const liveCount: Island = (root) =>
  subscribe(root.dataset["socket"] ?? "", (text) => {
    const count = countIn(text, root.dataset["member"] ?? "");
    if (count === null) return;
    root.textContent = count > MOST_SHOWN ? `${MOST_SHOWN}+` : String(count);
    root.hidden = count === 0;
  });

/** Return the count in a socket message, or null if it has none. */
export function countIn(text: string, member: string): number | null {
  const count = (JSON.parse(text) as Record<string, unknown>)[member];
  return typeof count === "number" ? count : null;
}
