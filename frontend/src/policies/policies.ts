/** The entry of the policy page's own script: what follows from the form as it stands, at once. */
import type { Island } from "../lib/islands.ts";
import { need } from "../chat/dom.ts";
import { editRules } from "./rules.ts";
import { type Answer, showAnswer, showCall } from "./showing.ts";

const ASK_MS = 250;

const policies: Island = (root) => {
  const form = need<HTMLFormElement>(root, "[data-policy]");
  const simulate = document.querySelector<HTMLFormElement>("[data-simulate]");
  const stopRules = editRules(form, later);
  let timer: number | undefined;
  let asked = 0;

  function later(): void {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void ask(), ASK_MS);
  }

  /** Only the answer to the newest question is shown. */
  async function ask(): Promise<void> {
    asked += 1;
    const mine = asked;
    const body = facts(form, simulate);
    try {
      const answer = await fetch(form.dataset["preview"] ?? "", {
        method: "POST",
        credentials: "same-origin",
        headers: { Accept: "application/json" },
        body,
      });
      if (mine !== asked) return;
      const said = (await answer.json()) as Answer;
      showAnswer(form, said);
      showCall(said.call);
    } catch {
      // The page goes on without: the review asks the server again.
    }
  }

  const onSimulate = (event: Event): void => {
    event.preventDefault();
    void ask();
  };

  form.addEventListener("input", later);
  simulate?.addEventListener("input", later);
  simulate?.addEventListener("submit", onSimulate);
  return () => {
    window.clearTimeout(timer);
    stopRules();
    form.removeEventListener("input", later);
    simulate?.removeEventListener("input", later);
    simulate?.removeEventListener("submit", onSimulate);
  };
};

/** The form as it stands and the call to simulate. A viewer's form is disabled, and counts as well. */
function facts(form: HTMLFormElement, simulate: HTMLFormElement | null): FormData {
  const fields = form.querySelector<HTMLFieldSetElement>(".policy-fields");
  const closed = fields?.disabled ?? false;
  if (fields) fields.disabled = false;
  const body = new FormData(form);
  if (fields) fields.disabled = closed;
  if (simulate) {
    for (const [name, value] of new FormData(simulate)) body.set(name, value);
  }
  return body;
}

export default policies;
