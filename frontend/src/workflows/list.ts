/** Entry of the workflow list: keeps its rows up to date. */
import type { Island } from "../lib/islands.ts";
import { firstLinkOfEachRow, moveWithKeys } from "../lib/keys.ts";
import { refresher } from "../lib/pages.ts";
import { subscribe } from "../lib/socket.ts";

/**
 * Fetch the list again when the server reports a change.
 *
 * @example
 * <div data-island="workflows" data-socket="/ws/workflows/"><div data-live><table>…</table></div></div>
 */
const workflows: Island = (root) => {
  const { socket } = root.dataset;
  if (!socket) throw new Error("workflows needs data-socket.");

  const refreshing = refresher(
    () => location.href,
    (page) => patchList(root, page),
  );
  const stopMoving = moveWithKeys(() => firstLinkOfEachRow(root));
  const unsubscribe = subscribe(socket, (text) => {
    const { type } = JSON.parse(text) as { type?: string };
    if (type === "workflows") refreshing.soon();
  });

  return () => {
    refreshing.stop();
    unsubscribe();
    stopMoving();
  };
};

export default workflows;

// --- Patching rows: matched by id, unchanged ones stay

export function patchList(root: HTMLElement, html: string): void {
  // Rendered and escaped by our own template.
  const next = new DOMParser().parseFromString(html, "text/html").querySelector<HTMLElement>("[data-live]");
  const old = root.querySelector<HTMLElement>("[data-live]");
  if (!next || !old) return;
  const rows = old.querySelector("tbody");
  const newer = next.querySelector("tbody");
  if (rows && newer) patchRows(rows, newer);
  else old.replaceChildren(...Array.from(next.childNodes));
  root.dispatchEvent(new Event("times-shown", { bubbles: true }));
}

function patchRows(rows: Element, newer: Element): void {
  const known = new Map(Array.from(rows.children, (row) => [row.id, row]));
  const focused = document.activeElement?.closest("tr")?.id;
  let before: Element | null = rows.firstElementChild;
  for (const row of Array.from(newer.children)) {
    const old = known.get(row.id);
    known.delete(row.id);
    const shown = old && contentOf(old) === contentOf(row) ? old : row;
    if (shown === before) before = before.nextElementSibling;
    else {
      if (old === before && before) before = before.nextElementSibling;
      if (old && old !== shown) old.remove();
      rows.insertBefore(shown, before);
    }
  }
  for (const gone of known.values()) gone.remove();
  // Restore the focus to a replaced row.
  if (focused && document.activeElement === document.body) {
    document.getElementById(focused)?.querySelector("a")?.focus();
  }
}

/** Ignore relative times, which the page updates itself. */
function contentOf(row: Element): string {
  const copy = row.cloneNode(true) as Element;
  for (const time of copy.querySelectorAll("time")) time.replaceWith(time.getAttribute("datetime") ?? "");
  return copy.innerHTML;
}
