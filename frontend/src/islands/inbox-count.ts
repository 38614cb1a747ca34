import { connect } from "../lib/link.ts";
import type { Island } from "../lib/islands.ts";

const MOST_SHOWN = 99;

/**
 * The number of unread items, kept right while the page is open.
 *
 * @example
 * <span class="rail-count" data-island="inbox-count" data-workspace="01…" hidden></span>
 */
export const inboxCount: Island = (root) => {
  const link = connect({
    path: () => `/ws/inbox/${root.dataset["workspace"]}/`,
    onMessage: (text) => {
      const unread = unreadIn(text);
      if (unread === null) return;
      root.textContent = unread > MOST_SHOWN ? `${MOST_SHOWN}+` : String(unread);
      root.hidden = unread === 0;
    },
    onState: () => undefined,
  });
  return () => link.close();
};

/** The count that a message carries; null when it is about something else. */
export function unreadIn(text: string): number | null {
  const said = JSON.parse(text) as { type?: unknown; unread?: unknown };
  return said.type === "inbox" && typeof said.unread === "number" ? said.unread : null;
}
