/** What went wrong, where it did, with the button that helps. */
import type { Desk } from "./desk.ts";
import { button, h } from "../lib/dom.ts";
import type { ErrorItem, Item } from "./items.ts";
import type { Line } from "./lines.ts";

/** Where one can do something about it. `sessions_app/pages/lines.py` says the same. */
const HELP: Record<string, [words: string, href: string]> = {
  budget_reached: ["Raise the budget", "/settings/budgets/"],
  out_of_credits: ["Add credits", "/settings/budgets/"],
  provider_not_configured: ["Open settings", "/settings/providers/"],
  provider_unauthorized: ["Open settings", "/settings/providers/"],
};

export function errorLine(first: ErrorItem, desk: Desk): Line {
  const words = h("p");
  const box = h("div", { class: "flash is-error" }, words);
  const node = h("li", { class: "line is-trouble" }, box);
  const help = HELP[first.code];
  let retry: HTMLButtonElement | undefined;
  if (help) box.append(h("a", { class: "btn btn-sm btn-quiet", href: help[1], text: help[0] }));

  function update(item: Item): void {
    if (item.kind !== "error") return;
    words.textContent = item.message;
    retry?.remove();
    const { runId } = item;
    // A person can add money or a key; then the same run may well succeed.
    const worth = item.retryable || (help !== undefined && item.latest);
    if (!worth || !runId || !desk.mayRun) return;
    retry = button("Retry", () => void again(runId), { class: "btn btn-sm btn-quiet" });
    box.append(retry);
  }
  async function again(runId: string): Promise<void> {
    retry?.setAttribute("disabled", "");
    try {
      await desk.retry(runId);
    } catch (fault) {
      words.textContent = `${words.textContent} ${(fault as Error).message}`;
      retry?.removeAttribute("disabled");
    }
  }
  update(first);
  return { node, update };
}
