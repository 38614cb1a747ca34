import { listenTo } from "../lib/bells.ts";
import { need, say } from "../lib/dom.ts";
import { restWith } from "../lib/rest.ts";
import type { Island } from "../lib/islands.ts";
import { lookAt } from "../lib/look.ts";
import { isCommand } from "../lib/keys.ts";
import { pressInCard } from "../lib/press.ts";
import { walkAlong } from "../lib/walk.ts";
import { bodyOf, changeWords, type Change } from "./answer.ts";
import { patch, showCount } from "./patch.ts";

/**
 * Keeps the inbox of approvals live, and answers without leaving the page.
 *
 * The server writes every card; a ring only says that it has something new to read.
 *
 * @example
 * <div data-island="approvals" data-api="/api/v1/approvals/"><ol data-pending>…</ol></div>
 */
const inbox: Island = (root) => {
  const api = root.dataset["api"] ?? "";
  const rest = restWith(need<HTMLInputElement>(root, "[name=csrfmiddlewaretoken]").value);
  const status = need<HTMLElement>(root, "[data-announce]");
  const listening = new AbortController();
  let isFirst = true;

  const looking = lookAt(
    () => location.href,
    (page) => patch(root, page),
  );

  const leave = [listenTo("/ws/approvals/", hear), walkAlong(cards)];

  function hear(text: string): void {
    const change = JSON.parse(text) as Change;
    if (change.type !== "approvals") return;
    showCount(change.pending);
    if (change.approval) say(status, changeWords(change.approval));
    // The page was written a moment ago; only a count that differs says that it is old.
    if (!isFirst || change.pending !== cards().length) looking.soon();
    isFirst = false;
  }

  function cards(): HTMLElement[] {
    return [...root.querySelectorAll<HTMLElement>("[data-pending] .approval")];
  }

  async function onSubmit(event: SubmitEvent): Promise<void> {
    const form = event.target as HTMLFormElement;
    const card = form.closest<HTMLElement>("[data-approval]");
    if (!form.matches("[data-answer]") || !card) return;
    event.preventDefault();
    const wrong = need<HTMLElement>(form, "[data-wrong]");
    const buttons = [...form.querySelectorAll<HTMLButtonElement>("button:not([data-no-default])")];
    wrong.hidden = true;
    for (const button of buttons) button.disabled = true;
    try {
      const body = bodyOf(form, (event.submitter as HTMLButtonElement | null)?.value ?? "deny");
      await rest.post(`${api}${card.dataset["approval"]}/`, body);
      await looking.now();
    } catch (fault) {
      say(wrong, (fault as Error).message);
      wrong.hidden = false;
      for (const button of buttons) button.disabled = false;
    }
  }

  function onKey(event: KeyboardEvent): void {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (isCommand(event, "enter")) pressInCard(root, "[data-approve]", event);
    else if (isCommand(event, "backspace")) pressInCard(root, "[data-deny]", event);
  }

  root.addEventListener("submit", (event) => void onSubmit(event), { signal: listening.signal });
  document.addEventListener("keydown", onKey, { signal: listening.signal });
  return () => {
    listening.abort();
    looking.stop();
    for (const one of leave) one();
  };
};

export default inbox;
