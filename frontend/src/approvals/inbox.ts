import { submitApproval } from "../lib/approval-form.ts";
import { requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { isCommand, clickInCard, moveWithKeys } from "../lib/keys.ts";
import { refresher } from "../lib/pages.ts";
import { restWith } from "../lib/rest.ts";
import { subscribe } from "../lib/socket.ts";

/**
 * Keep the approvals page live and answer without leaving it.
 *
 * The server renders every card. A socket message only says that there is something new to fetch.
 *
 * @example
 * <div data-island="approvals" data-api="/api/v1/approvals/"><ol data-pending>…</ol></div>
 */
const inbox: Island = (root) => {
  const api = root.dataset["api"] ?? "";
  const rest = restWith(requireElement<HTMLInputElement>(root, "[name=csrfmiddlewaretoken]").value);
  const status = requireElement<HTMLElement>(root, "[data-announce]");
  const listening = new AbortController();
  let isFirst = true;

  const refreshing = refresher(
    () => location.href,
    (page) => patch(root, page),
  );

  const cleanUps = [subscribe("/ws/approvals/", onMessage), moveWithKeys(cards)];

  function onMessage(text: string): void {
    const change = JSON.parse(text) as Change;
    if (change.type !== "approvals") return;
    showCount(change.pending);
    if (change.approval) say(status, describeChange(change.approval));
    // The page was rendered a moment ago, so the first message matters only if its count differs.
    if (!isFirst || change.pending !== cards().length) refreshing.soon();
    isFirst = false;
  }

  function cards(): HTMLElement[] {
    return [...root.querySelectorAll<HTMLElement>("[data-pending] .approval")];
  }

  async function onSubmit(event: SubmitEvent): Promise<void> {
    const form = event.target as HTMLFormElement;
    const card = form.closest<HTMLElement>("[data-approval]");
    if (!form.matches("[data-answer]") || !card) return;
    await submitApproval(event, async (answer) => {
      await rest.post(`${api}${card.dataset["approval"]}/`, answer);
      await refreshing.now();
    });
  }

  function onKey(event: KeyboardEvent): void {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (isCommand(event, "enter")) clickInCard(root, "[data-approve]", event);
    else if (isCommand(event, "backspace")) clickInCard(root, "[data-deny]", event);
  }

  root.addEventListener("submit", (event) => void onSubmit(event), { signal: listening.signal });
  document.addEventListener("keydown", onKey, { signal: listening.signal });
  return () => {
    listening.abort();
    refreshing.stop();
    for (const cleanUp of cleanUps) cleanUp();
  };
};

export default inbox;

// --- Changes

export interface Change {
  type: string;
  pending: number;
  approval: { title: string; status: string; resolved_by_name: string } | null;
}

/** Describe a change for screen readers. */
export function describeChange(approval: NonNullable<Change["approval"]>): string {
  if (approval.status === "pending") return `Needs approval: ${approval.title}`;
  const who = approval.resolved_by_name ? ` by ${approval.resolved_by_name}` : "";
  return `${approval.status}${who}: ${approval.title}`;
}

// --- Updating the page

const WAITING = '[data-part="waiting"]';
const ANSWERED = '[data-part="answered"]';

/**
 * Replace the lists with those of a freshly fetched page. Cards that are still pending stay
 * untouched.
 */
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
 * Remove answered cards and append new ones. Returns false if either page has no list.
 *
 * A card that stays is never moved, so a person writing in it keeps the focus.
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

/** Focus the card that moved up, so that a list can be worked through by keyboard. */
function focusNear(root: HTMLElement, place: number): void {
  const left = cardsOf(root);
  const next = left[Math.min(place, left.length - 1)];
  next?.querySelector<HTMLElement>(".approval")?.focus();
}

/** Show the number of pending approvals in the title and next to the heading. */
export function showCount(pending: number): void {
  const plain = document.title.replace(/^\(\d+\) /, "");
  document.title = pending ? `(${pending}) ${plain}` : plain;
  const status = document.querySelector("[data-inbox-status]");
  if (status) {
    status.textContent = pending ? `${pending} waiting` : "None waiting";
    status.classList.toggle("is-waiting", pending > 0);
  }
}
