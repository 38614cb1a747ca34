import type { Island } from "../lib/islands.ts";
import { firstLinkOfEachRow, moveWithKeys } from "../lib/keys.ts";

/**
 * Move through a list with J and K, focusing the first link of each row.
 *
 * @example
 * <table data-island="list-keys"><tbody><tr><td><a href="/webhooks/1/">…</a></td></tr></tbody></table>
 */
export const listKeys: Island = (root) => moveWithKeys(() => firstLinkOfEachRow(root));
