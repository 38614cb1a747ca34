/** Calls in a row: as soon as the agent has gone on, they fold into one line. */
import type { CallItem, CallState, Item, Status, StepsItem } from "./items.ts";

/** Fewer are as short as their fold. `sessions_app/pages/folding.py` folds the same. */
const FEWEST = 3;
const OVER = new Set<CallState>(["completed", "error", "denied", "cancelled"]);

/** The items with every row of finished calls in one, but for the row that still grows. */
export function folded(items: readonly Item[], status: Status): Item[] {
  const out: Item[] = [];
  let row: CallItem[] = [];
  const close = (isLast: boolean): void => {
    const folds = row.length >= FEWEST && !(isLast && status !== "idle");
    if (folds) out.push(stepsOf(row));
    else out.push(...row);
    row = [];
  };
  for (const item of items) {
    if (isStep(item)) {
      row.push(item);
    } else {
      close(false);
      out.push(item);
    }
  }
  close(true);
  return out;
}

/** What needs nobody's eye any more. */
function isStep(item: Item): item is CallItem {
  return item.kind === "call" && !item.child && OVER.has(item.state);
}

function stepsOf(calls: CallItem[]): StepsItem {
  const { key, order, seq, at } = calls[0]!;
  return { kind: "steps", key: `steps-${key}`, order, seq, at, calls };
}

/** The time that all of them took. */
export function spentOn(calls: readonly CallItem[]): number {
  return calls.reduce((sum, call) => sum + (call.durationMs ?? 0), 0);
}
