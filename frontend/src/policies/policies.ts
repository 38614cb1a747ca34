/** Entry of the policy page: shows the effect of the form as it is edited. */
import { h, requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { latestQuery } from "../lib/latest-query.ts";
import { reached, refusalOf } from "../lib/rest.ts";

const policies: Island = (root) => {
  const form = requireElement<HTMLFormElement>(root, "[data-policy]");
  const simulate = document.querySelector<HTMLFormElement>("[data-simulate]");
  const query = latestQuery(
    () => fetchEffect(form.dataset["preview"] ?? "", formData(form, simulate)).catch(problemOf),
    (answer) => {
      showAnswer(form, answer);
      showCall(answer.call);
    },
  );
  // Offered immediately, as the response may take a moment or fail.
  const changed = (): void => {
    offerReview(form, true);
    query.soon();
  };
  const stopRules = editRules(form, changed);

  const onSimulate = (event: Event): void => {
    event.preventDefault();
    void query.now();
  };

  if (!form.querySelector("[data-reviewed]")) offerReview(form, isTouched(form));
  form.addEventListener("input", changed);
  simulate?.addEventListener("input", query.soon);
  simulate?.addEventListener("submit", onSimulate);
  return () => {
    query.stop();
    stopRules();
    form.removeEventListener("input", changed);
    simulate?.removeEventListener("input", query.soon);
    simulate?.removeEventListener("submit", onSimulate);
  };
};

/** Browsers restore choices on reload. */
function isTouched(form: HTMLFormElement): boolean {
  const choices = [...form.querySelectorAll<HTMLInputElement>("input:is([type=radio], [type=checkbox])")];
  const texts = [
    ...form.querySelectorAll<HTMLInputElement>("input:not([type=radio], [type=checkbox], [type=hidden])"),
  ];
  return (
    choices.some((one) => one.checked !== one.defaultChecked) ||
    texts.some((one) => one.value !== one.defaultValue)
  );
}

/** Show the effect, or why it is unknown: silence would look like "no changes". */
async function fetchEffect(url: string, body: FormData): Promise<Answer> {
  const headers = { Accept: "application/json" };
  const answer = await reached(fetch(url, { method: "POST", credentials: "same-origin", headers, body }));
  const text = await reached(answer.text());
  if (answer.ok || answer.status === 400) return JSON.parse(text) as Answer;
  throw refusalOf(answer.status, text);
}

const problemOf = (fault: unknown): Answer => ({ problem: (fault as Error).message });

/** Collect the form and the simulated call. A viewer's disabled form counts too. */
function formData(form: HTMLFormElement, simulate: HTMLFormElement | null): FormData {
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

/** Add and remove rows of the rule list. */
export function editRules(form: HTMLFormElement, changed: () => void): () => void {
  const list = form.querySelector<HTMLElement>("[data-rules]");
  const spare = [...(list?.querySelectorAll<HTMLElement>("[data-spare]") ?? [])];
  const pattern = spare[0]?.cloneNode(true) as HTMLElement | undefined;
  // Without JavaScript spare rows serve to add rules; with it there is a button.
  for (const row of spare) if (!row.querySelector("input")?.value) row.remove();

  const onClick = (event: Event): void => {
    const target = event.target as Element;
    if (target.closest("[data-add]") && pattern && list) {
      const row = pattern.cloneNode(true) as HTMLElement;
      list.append(row);
      row.querySelector("input")?.focus();
      return;
    }
    const remove = target.closest("[data-remove]");
    const row = remove?.closest("[data-rule]");
    if (!row) return;
    const next = (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("input");
    row.remove();
    (next ?? form.querySelector<HTMLElement>("[data-add]"))?.focus();
    changed();
  };

  form.addEventListener("click", onClick);
  return () => form.removeEventListener("click", onClick);
}

// --- Showing the result; everything is inserted as text

interface Link {
  layer: string;
  decision: string;
  rule: string;
}

interface Call {
  problem?: string;
  sentence?: string;
  explanation?: { decision: string; chain: Link[] };
}

export interface Answer {
  problem?: string;
  tools?: Record<string, { decision: string; why: string }>;
  lines?: string[];
  risky?: string[];
  call?: Call | null;
}

const verdict = (decision: string): HTMLElement =>
  h("span", { class: `verdict is-${decision}`, text: decision });

/** Show the effect next to each tool and a summary of the changes. */
export function showAnswer(form: HTMLFormElement, answer: Answer): void {
  for (const row of form.querySelectorAll<HTMLElement>("[data-tool]")) {
    const effect = answer.tools?.[row.dataset["tool"] ?? ""];
    const shown = row.querySelector<HTMLElement>("[data-verdict]");
    if (!effect || !shown) continue;
    shown.className = `verdict is-${effect.decision}`;
    say(shown, effect.decision);
    say(row.querySelector("[data-why]")!, effect.why);
    const chosen = row.querySelector<HTMLInputElement>("input:checked");
    row.toggleAttribute("data-changed", chosen !== null && !chosen.defaultChecked);
  }
  const status = form.querySelector<HTMLElement>("[data-status]");
  if (status) summarize(status, answer);
  offerReview(form, Boolean(answer.problem) || (answer.lines?.length ?? 0) > 0);
}

/** Offer to review or discard only if something changed. */
export function offerReview(form: HTMLFormElement, isChanged: boolean): void {
  const review = form.querySelector<HTMLButtonElement>("[data-review]");
  const discard = form.querySelector<HTMLElement>("[data-discard]");
  if (review) review.disabled = !isChanged;
  if (discard) discard.hidden = !isChanged;
}

function summarize(status: HTMLElement, answer: Answer): void {
  const count = answer.lines?.length ?? 0;
  const risky = answer.risky ?? [];
  status.toggleAttribute("data-risky", risky.length > 0);
  if (answer.problem) say(status, answer.problem);
  else if (count === 0) say(status, "No changes.");
  else {
    const summary = `${count} unsaved change${count === 1 ? "" : "s"}.`;
    say(status, risky.length ? `${summary} Lets ${risky.join(", ")} run without approval.` : summary);
  }
}

/** Show the verdict on the simulated call, layer by layer. */
export function showCall(call: Call | null | undefined): void {
  const box = document.querySelector<HTMLElement>("[data-call]");
  if (!box) return;
  if (!call) box.replaceChildren();
  else if (call.problem || !call.explanation) {
    box.replaceChildren(h("p", { class: "field-error", text: call.problem ?? "" }));
  } else {
    const chain = h("ol", { class: "chain" });
    for (const link of call.explanation.chain) {
      const rule = h("span", {}, h("strong", { text: link.layer }), ` ${link.rule}`);
      chain.append(h("li", {}, verdict(link.decision), rule));
    }
    const head = h("p", { class: "call-verdict" }, verdict(call.explanation.decision));
    box.replaceChildren(head, h("p", { text: call.sentence ?? "" }), chain);
  }
}
