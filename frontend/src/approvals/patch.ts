/** Brings the page up to date with what the server writes now, and leaves alone what is being edited. */

const WAITING = '[data-part="waiting"]';
const ANSWERED = '[data-part="answered"]';

/** Takes the lists out of a whole page. Cards that still wait stay as they are. */
export function patch(root: HTMLElement, html: string): void {
  const page = new DOMParser().parseFromString(html, "text/html");
  const fresh = page.querySelector<HTMLElement>('[data-island="approvals"]');
  const waiting = fresh?.querySelector(WAITING);
  const answered = fresh?.querySelector(ANSWERED);
  if (!waiting || !answered) return;
  const focused = document.activeElement?.closest<HTMLElement>("[data-approval]");
  const place = focused ? cardsOf(root).indexOf(focused) : -1;
  if (!updateCards(root, waiting)) {
    root.querySelector(WAITING)?.replaceWith(document.importNode(waiting, true));
  }
  root.querySelector(ANSWERED)?.replaceWith(document.importNode(answered, true));
  root.dispatchEvent(new Event("times-shown", { bubbles: true }));
  if (focused && !focused.isConnected) focusNear(root, place);
  showCount(Number(page.querySelector("[data-inbox-status]")?.textContent?.match(/\d+/)?.[0] ?? 0));
}

/**
 * Takes away what was answered and adds what is new. Says whether both pages have a list.
 *
 * A card that stays is not moved: somebody may be writing in it, and would lose the focus.
 */
function updateCards(root: HTMLElement, waiting: Element): boolean {
  const list = root.querySelector("[data-pending]");
  if (!list || !waiting.querySelector("[data-pending]")) return false;
  const fresh = new Map(cardsOf(waiting).map((card) => [card.dataset["approval"], card]));
  for (const mine of cardsOf(root)) {
    if (!fresh.delete(mine.dataset["approval"])) mine.remove();
  }
  for (const card of fresh.values()) list.append(document.importNode(card, true));
  return true;
}

function cardsOf(root: ParentNode): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>("[data-pending] [data-approval]")];
}

/** The card that has moved up to where one was, so that a list can be worked off by keys. */
function focusNear(root: HTMLElement, place: number): void {
  const left = cardsOf(root);
  const next = left[Math.min(place, left.length - 1)];
  next?.querySelector<HTMLElement>(".approval")?.focus();
}

/** The count where it is shown: in the title and beside the heading. The rail counts by itself. */
export function showCount(pending: number): void {
  const plain = document.title.replace(/^\(\d+\) /, "");
  document.title = pending ? `(${pending}) ${plain}` : plain;
  const status = document.querySelector("[data-inbox-status]");
  if (status) {
    status.textContent = pending ? `${pending} waiting` : "Nothing waits";
    status.classList.toggle("is-waiting", pending > 0);
  }
}
