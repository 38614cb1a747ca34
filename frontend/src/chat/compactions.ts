/** Compactions of the context, and which of them still holds. */
import type { Json } from "../lib/json.ts";
import { textOf, type Frame } from "./frames.ts";
import { change, insert, isCompaction, type CompactionItem, type Item } from "./items.ts";
import { compactionWords, noteOf } from "./notes.ts";
import type { State } from "./state.ts";

/** A new one takes the place of those before it; one that is undone gives it back. */
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

/** Only the last one that was not undone can be. */
function settle(items: readonly Item[]): readonly Item[] {
  const last = items.filter(isCompaction).findLast((item) => !item.undone && item.snapshotId);
  return change(items, isCompaction, (item) =>
    item.newest === (item === last) ? item : { ...item, newest: item === last },
  );
}
