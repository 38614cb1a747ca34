/** Tracks context compactions and renders their dividers. */
import { button, h, say, timeOf } from "../lib/dom.ts";
import type { Json } from "../lib/rest.ts";
import { type Frame, textOf } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import { compactionWords, noteOf } from "./labels.ts";
import type { Line } from "./renderer.ts";
import { change, type CompactionItem, insert, isCompaction, type Item, type State } from "./state.ts";

/** Apply a compaction, or the undoing of one. */
export function takeCompaction(state: State, frame: Frame, payload: Json): State {
  const snapshotId = textOf(payload["snapshot_id"]);
  if (payload["undone"] === true) {
    const items = change(state.items, isCompaction, (item) =>
      item.snapshotId === snapshotId ? { ...item, undone: true } : item,
    );
    const note = noteOf(frame, state.seq, "Compaction undone", null);
    return { ...state, items: settle(insert(items, note)) };
  }
  const { key, order, seq, at } = noteOf(frame, state.seq, "", null);
  const item: CompactionItem = {
    kind: "compaction",
    key,
    order,
    seq,
    at,
    text: compactionWords(payload),
    snapshotId,
    undone: false,
    newest: true,
  };
  return { ...state, items: settle(insert(state.items, item)) };
}

/** Only the latest compaction that is still in effect can be undone. */
function settle(items: readonly Item[]): readonly Item[] {
  const last = items.filter(isCompaction).findLast((item) => !item.undone && item.snapshotId);
  return change(items, isCompaction, (item) =>
    item.newest === (item === last) ? item : { ...item, newest: item === last },
  );
}

// --- The divider, with its summary and undo

export function compactionLine(first: CompactionItem, host: ChatHost): Line {
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
    undo.hidden = !item.newest || item.undone || !host.mayRun;
  }

  async function show(): Promise<void> {
    const open = summary.hidden;
    if (open && !summary.textContent) {
      const text = await attempt(() => host.summary(snapshotId));
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
    await attempt(() => host.undo(snapshotId));
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
