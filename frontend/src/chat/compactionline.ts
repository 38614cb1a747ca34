/** The line where a context was compacted: how much, the summary, and the way back. */
import type { Desk } from "./desk.ts";
import { button, h, say, timeOf } from "../lib/dom.ts";
import type { CompactionItem, Item } from "./items.ts";
import type { Line } from "./lines.ts";

export function compactionLine(first: CompactionItem, desk: Desk): Line {
  const words = h("span");
  const problem = h("span", { class: "compaction-problem", role: "alert", hidden: true });
  const summary = h("pre", { class: "compaction-summary", tabindex: "0", hidden: true });
  const view = button("View summary", () => void show(), {
    class: "link-text",
    "aria-expanded": "false",
  });
  const undo = button("Undo", () => void putBack(), { class: "link-text" });
  const head = h("div", { class: "compaction-head" }, words, view, undo, problem, timeOf(first.at));
  const node = h("li", { class: "line is-compaction" }, head, summary);
  let { snapshotId } = first;

  function update(item: Item): void {
    if (item.kind !== "compaction") return;
    snapshotId = item.snapshotId;
    say(words, item.undone ? `${item.text} · undone` : item.text);
    view.hidden = !item.snapshotId;
    undo.hidden = !item.newest || item.undone || !desk.mayRun;
  }

  async function show(): Promise<void> {
    const open = summary.hidden;
    if (open && !summary.textContent) {
      const text = await attempt(() => desk.summary(snapshotId));
      if (text === undefined) return;
      summary.textContent = text;
    }
    summary.hidden = !open;
    say(view, open ? "Hide summary" : "View summary");
    view.setAttribute("aria-expanded", String(open));
    if (open) summary.scrollIntoView?.({ block: "center" });
  }

  async function putBack(): Promise<void> {
    undo.disabled = true;
    await attempt(() => desk.undo(snapshotId));
    undo.disabled = false;
  }

  async function attempt<T>(act: () => Promise<T>): Promise<T | undefined> {
    problem.hidden = true;
    try {
      return await act();
    } catch (fault) {
      say(problem, (fault as Error).message);
      problem.hidden = false;
      return undefined;
    }
  }
  update(first);
  return { node, update };
}
