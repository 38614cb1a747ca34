
/** Whether a key press goes to a text field. */
function isTyping(event: KeyboardEvent): boolean {
  const target = event.target;
  return (
    event.isComposing ||
    (target instanceof HTMLElement &&
      (target.isContentEditable || target.matches("input, textarea, select, [contenteditable]")))
  );
}

/** Whether a key press is a shortcut of the page: no modifier, not typed, no dialog open. */
export function isForPage(event: KeyboardEvent): boolean {
  const isPlain = !event.metaKey && !event.ctrlKey && !event.altKey;
  return (
    isPlain &&
    !event.defaultPrevented &&
    !isTyping(event) &&
    document.querySelector("dialog[open]") === null
  );
}

/** Whether this is ⌘ or Ctrl with one key and no other modifier. */
export function isCommand(event: KeyboardEvent, key: string): boolean {
  return (
    (event.metaKey || event.ctrlKey) &&
    !event.altKey &&
    !event.shiftKey &&
    event.key.toLowerCase() === key
  );
}

/** Click a button of the focused card, else of the first one; not while typing. */
export function clickInCard(root: ParentNode, selector: string, event: KeyboardEvent): void {
  // A held key would answer the next approval unread.
  if (event.repeat) return;
  const target = event.target as HTMLElement;
  const card = target.closest?.(".approval") ?? null;
  const isText = target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;
  // In a card Ctrl+Enter submits typed text; elsewhere typed text comes first.
  if (isText && target.value && !(card && selector === "[data-approve]")) return;
  const button = (card ?? root).querySelector<HTMLButtonElement>(selector);
  if (!button) return;
  event.preventDefault();
  button.click();
}

/**
 * Move the focus through rows with J and K, from the focused or current row.
 *
 * `rows` is called at every key press, as lists change; `on` receives the focused row.
 */
export function moveWithKeys(
  rows: () => HTMLElement[],
  on?: (row: HTMLElement) => void,
): () => void {
  const onKey = (event: KeyboardEvent): void => {
    if (!isForPage(event)) return;
    const by = { j: 1, k: -1 }[event.key.toLowerCase()];
    const next = by && after(rows(), by);
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView?.({ block: "nearest" });
    on?.(next);
  };

  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

/** Return the first link of each row. */
export function firstLinkOfEachRow(list: HTMLElement): HTMLElement[] {
  return [...list.querySelectorAll("tbody > tr:not([hidden]), li:not([hidden])")].flatMap(
    (row) => row.querySelector<HTMLElement>("a[href]") ?? [],
  );
}

/** Return the row with the focus, else the current one. */
export function currentRow(rows: HTMLElement[]): HTMLElement | undefined {
  return (
    rows.find((row) => (row.closest("tr, li") ?? row).contains(document.activeElement)) ??
    rows.find((row) => row.ariaCurrent === "page" || row.closest("[data-shown]"))
  );
}

function after(rows: HTMLElement[], by: number): HTMLElement | undefined {
  const row = currentRow(rows);
  if (!row) return by > 0 ? rows[0] : rows.at(-1);
  return rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + by))];
}
