/** Writes the server's answer into the page. Everything in it is text. */
import { h, say } from "../lib/dom.ts";

interface Link {
  layer: string;
  decision: string;
  rule: string;
}

interface Call {
  problem?: string;
  sentence?: string;
  said?: { decision: string; chain: Link[] };
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

/** The effect beside every tool, and what the change amounts to. */
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
  const said = form.querySelector<HTMLElement>("[data-said]");
  if (said) tell(said, answer);
  offerReview(form, Boolean(answer.problem) || (answer.lines?.length ?? 0) > 0);
}

/** Where nothing is changed there is nothing to look through and nothing to throw away. */
export function offerReview(form: HTMLFormElement, isChanged: boolean): void {
  const review = form.querySelector<HTMLButtonElement>("[data-review]");
  const discard = form.querySelector<HTMLElement>("[data-discard]");
  if (review) review.disabled = !isChanged;
  if (discard) discard.hidden = !isChanged;
}

function tell(said: HTMLElement, answer: Answer): void {
  const count = answer.lines?.length ?? 0;
  const risky = answer.risky ?? [];
  said.toggleAttribute("data-risky", risky.length > 0);
  if (answer.problem) say(said, answer.problem);
  else if (count === 0) say(said, "No changes.");
  else {
    const words = `${count} change${count === 1 ? "" : "s"}, not saved yet.`;
    say(said, risky.length ? `${words} Lets ${risky.join(", ")} act without asking.` : words);
  }
}

/** What would happen on the simulated call, layer by layer. */
export function showCall(call: Call | null | undefined): void {
  const box = document.querySelector<HTMLElement>("[data-call]");
  if (!box) return;
  if (!call) box.replaceChildren();
  else if (call.problem || !call.said) {
    box.replaceChildren(h("p", { class: "field-error", text: call.problem ?? "" }));
  } else {
    const chain = h("ol", { class: "chain" });
    for (const link of call.said.chain) {
      const words = h("span", {}, h("strong", { text: link.layer }), ` ${link.rule}`);
      chain.append(h("li", {}, verdict(link.decision), words));
    }
    const head = h("p", { class: "call-verdict" }, verdict(call.said.decision));
    box.replaceChildren(head, h("p", { text: call.sentence ?? "" }), chain);
  }
}
