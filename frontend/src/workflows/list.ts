/** The entry of the script of the list of workflows: keeps the rows up to date, walks along them. */
import { firstLinks } from "../islands/walk.ts";
import { listenTo } from "../lib/bells.ts";
import type { Island } from "../lib/islands.ts";
import { lookAt } from "../lib/look.ts";
import { walkAlong } from "../lib/walk.ts";
import { patchList } from "./rows.ts";

/**
 * Asks the server for the list again when it says that something changed.
 *
 * @example
 * <div data-island="workflows" data-socket="/ws/workflows/"><div data-live><table>…</table></div></div>
 */
const workflows: Island = (root) => {
  const { socket } = root.dataset;
  if (!socket) throw new Error("workflows needs data-socket.");

  const looking = lookAt(
    () => location.href,
    (page) => patchList(root, page),
  );
  const stay = walkAlong(() => firstLinks(root));
  const leave = listenTo(socket, (text) => {
    const { type } = JSON.parse(text) as { type?: string };
    if (type === "workflows") looking.soon();
  });

  return () => {
    looking.stop();
    leave();
    stay();
  };
};

export default workflows;
