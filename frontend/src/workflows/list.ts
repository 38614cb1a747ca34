/** The entry of the script of the list of workflows: keeps the rows up to date. */
import { connect } from "../chat/link.ts";
import type { Island } from "../lib/islands.ts";
import { patchList } from "./rows.ts";

/** A list that could not be read is read again after so long. */
const RETRY_MS = 2_000;

/**
 * Asks the server for the list again when it says that something changed.
 *
 * @example
 * <div data-island="workflows" data-socket="/ws/workflows/"><div data-live><table>…</table></div></div>
 */
const workflows: Island = (root) => {
  const { socket } = root.dataset;
  if (!socket) throw new Error("workflows needs data-socket.");
  let isAsking = false;
  let again = false;
  let timer: number | undefined;

  async function look(): Promise<void> {
    if (isAsking) {
      again = true;
      return;
    }
    isAsking = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.ok) patchList(root, await answer.text());
      else timer = window.setTimeout(() => void look(), RETRY_MS);
    } catch {
      // The link that comes back brings a frame, and with it another look.
    } finally {
      isAsking = false;
      if (again) void look();
      again = false;
    }
  }

  const link = connect({
    url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${socket}`,
    onMessage: (text) => {
      const { type } = JSON.parse(text) as { type?: string };
      if (type === "workflows") void look();
    },
    onState: () => undefined,
  });

  return () => {
    window.clearTimeout(timer);
    link.close();
  };
};

export default workflows;
