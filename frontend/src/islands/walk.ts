import type { Island } from "../lib/islands.ts";
import { walkAlong } from "../lib/walk.ts";

/**
 * J and K go along a list: to the first link of each of its rows.
 *
 * @example
 * <table data-island="walk"><tbody><tr><td><a href="/webhooks/1/">…</a></td></tr></tbody></table>
 */
export const walk: Island = (root) => walkAlong(() => firstLinks(root));

export function firstLinks(root: HTMLElement): HTMLElement[] {
  return [...root.querySelectorAll("tbody > tr:not([hidden]), li:not([hidden])")].flatMap(
    (row) => row.querySelector<HTMLElement>("a[href]") ?? [],
  );
}
