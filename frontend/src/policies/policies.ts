/** The entry of the policy page's own script: what follows from the form as it stands, at once. */
import type { Island } from "../lib/islands.ts";
import { need } from "../lib/dom.ts";
import { newest } from "../lib/newest.ts";
import { reached, refusalOf } from "../lib/rest.ts";
import { editRules } from "./rules.ts";
import { type Answer, offerReview, showAnswer, showCall } from "./showing.ts";

const policies: Island = (root) => {
  const form = need<HTMLFormElement>(root, "[data-policy]");
  const simulate = document.querySelector<HTMLFormElement>("[data-simulate]");
  const asking = newest(
    () => judge(form.dataset["preview"] ?? "", facts(form, simulate)).catch(problemOf),
    (said) => {
      showAnswer(form, said);
      showCall(said.call);
    },
  );
  // Offered at once: the server's answer may take a moment, or not come.
  const changed = (): void => {
    offerReview(form, true);
    asking.soon();
  };
  const stopRules = editRules(form, changed);

  const onSimulate = (event: Event): void => {
    event.preventDefault();
    void asking.now();
  };

  if (!form.querySelector("[data-reviewed]")) offerReview(form, isTouched(form));
  form.addEventListener("input", changed);
  simulate?.addEventListener("input", asking.soon);
  simulate?.addEventListener("submit", onSimulate);
  return () => {
    asking.stop();
    stopRules();
    form.removeEventListener("input", changed);
    simulate?.removeEventListener("input", asking.soon);
    simulate?.removeEventListener("submit", onSimulate);
  };
};

/** A browser may bring back what was chosen before a reload. */
function isTouched(form: HTMLFormElement): boolean {
  const choices = [...form.querySelectorAll<HTMLInputElement>("input[type=radio]")];
  const texts = [...form.querySelectorAll<HTMLInputElement>("input:not([type=radio], [type=hidden])")];
  return (
    choices.some((one) => one.checked !== one.defaultChecked) ||
    texts.some((one) => one.value !== one.defaultValue)
  );
}

/** What follows, or why that is not known: silence would pass for "no changes". */
async function judge(url: string, body: FormData): Promise<Answer> {
  const headers = { Accept: "application/json" };
  const answer = await reached(fetch(url, { method: "POST", credentials: "same-origin", headers, body }));
  const said = await reached(answer.text());
  if (answer.ok || answer.status === 400) return JSON.parse(said) as Answer;
  throw refusalOf(answer.status, said);
}

const problemOf = (fault: unknown): Answer => ({ problem: (fault as Error).message });

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
