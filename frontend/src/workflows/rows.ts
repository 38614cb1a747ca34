/** Changes a list of rows into a newer one: rows are known by their id, and what is the same stays. */

export function patchList(root: HTMLElement, html: string): void {
  // Written by the server's own template, which escapes what others wrote.
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
    const shown = old && looks(old) === looks(row) ? old : row;
    if (shown === before) before = before.nextElementSibling;
    else {
      if (old === before && before) before = before.nextElementSibling;
      if (old && old !== shown) old.remove();
      rows.insertBefore(shown, before);
    }
  }
  for (const gone of known.values()) gone.remove();
  // A row that was replaced under somebody's hands is given back to them.
  if (focused && document.activeElement === document.body) {
    document.getElementById(focused)?.querySelector("a")?.focus();
  }
}

/** "A minute ago" is counted on by the page itself. */
function looks(row: Element): string {
  const copy = row.cloneNode(true) as Element;
  for (const time of copy.querySelectorAll("time")) time.replaceWith(time.getAttribute("datetime") ?? "");
  return copy.innerHTML;
}
