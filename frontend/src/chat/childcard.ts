/** A sub-agent in the conversation of its parent: its task, its state, what it brought and cost. */
import type { Desk } from "./desk.ts";
import { button, h, icon, say } from "../lib/dom.ts";
import type { CallItem, Child, ChildState, Item } from "./items.ts";
import type { Line } from "./lines.ts";
import { money, thousands } from "./notes.ts";
import { StreamingText } from "./streaming.ts";

const LAMPS: Record<ChildState, [lamp: string, word: string]> = {
  running: ["is-running", "At work"],
  completed: ["is-done", "Done"],
  failed: ["is-failed", "Failed"],
  cancelled: ["", "Stopped"],
};

export function childCard(first: CallItem, desk: Desk): Line {
  const id = `child-${first.key}`;
  const lamp = h("span", { class: "state" });
  const title = h("h3", { id: `${id}-title` });
  const agent = h("span", { class: "tag" });
  const task = h("p", { class: "child-task" });
  const said = h("div", { class: "said" });
  const result = h("details", { class: "child-result" }, h("summary", {}, h("span", { text: "Result" }), icon("chevron-right")), said);
  const facts = h("span", { class: "child-facts" });
  const asks = h("a", { class: "state is-waiting child-asks" });
  const open = h("a", { class: "link-text", text: "Open its chat" });
  const look = button("Look in", () => desk.lookInto(child), {
    class: "btn btn-sm btn-quiet",
    title: "Follow it beside this chat",
  });
  const card = h(
    "section",
    { class: "child", "aria-labelledby": title.id },
    h("header", { class: "child-head" }, icon("bot"), title, agent, lamp),
    task,
    result,
    h("footer", { class: "child-end" }, facts, asks, open, look),
  );
  const text = new StreamingText(said);
  let child = first.child!;

  function update(item: Item): void {
    if (item.kind !== "call" || !item.child) return;
    child = item.child;
    const [light, word] = LAMPS[child.state];
    card.dataset["state"] = child.state;
    lamp.className = `state ${light}`;
    say(lamp, word);
    say(title, child.title || "Sub-agent");
    say(agent, child.agent);
    agent.hidden = !child.agent;
    say(task, child.task);
    // A title that is the whole task need not be said twice.
    task.hidden = !child.task || child.task === child.title;
    if (child.result) text.update(child.result);
    result.hidden = !child.result;
    say(facts, factsOf(child));
    say(asks, child.asks === 1 ? "Waits for approval" : `${child.asks} calls wait for approval`);
    asks.hidden = child.asks === 0;
    for (const link of [asks, open]) link.href = `/chat/${child.sessionId}/`;
  }
  update(first);
  // What went wrong is read without a click.
  result.open = child.state === "failed";
  return { node: h("li", { class: "line is-child" }, card), update };
}

function factsOf(child: Child): string {
  if (!child.tokens) return "";
  return [`${thousands(child.tokens)} tokens`, money(child.cost)].filter(Boolean).join(" · ");
}
