/** Calls in a row as one line, which opens to all of them. */
import { duration } from "./calls.ts";
import type { Desk } from "./desk.ts";
import { h, icon, say } from "../lib/dom.ts";
import { Flow } from "./flow.ts";
import type { Item, StepsItem } from "./items.ts";
import type { Line } from "./lines.ts";
import { spentOn } from "./steps.ts";

export function stepsLine(first: StepsItem, desk: Desk): Line {
  const lamp = h("span", { class: "state" });
  const words = h("span", { class: "call-title" });
  const wrong = h("span", { class: "steps-wrong" });
  const list = h("ol", { class: "steps-list" });
  const summary = h("summary", {}, lamp, words, wrong, icon("chevron-right"));
  const details = h("details", { class: "call call-row" }, summary, list);
  const flow = new Flow(list, desk);
  let item = first;

  function update(next: Item): void {
    if (next.kind !== "steps") return;
    item = next;
    const failed = item.calls.filter((call) => call.state !== "completed").length;
    lamp.className = `state ${failed ? "is-failed" : "is-done"}`;
    const spent = duration(spentOn(item.calls) || null);
    say(words, [`${item.calls.length} steps`, spent].filter(Boolean).join(" · "));
    say(wrong, failed ? `${failed} did not end well` : "");
    if (details.open) flow.draw(item.calls);
  }
  details.addEventListener("toggle", () => {
    if (details.open) flow.draw(item.calls);
  });
  update(first);
  return { node: h("li", { class: "line is-call" }, details), update };
}
