import { beforeEach, expect, test } from "vitest";
import { patchList } from "./list.ts";

const row = (id: string, words: string, ago = "just now"): string =>
  `<tr id="row-${id}"><td><a href="#${id}">${words}</a></td><td><time datetime="2026-01-01T00:00:00Z">${ago}</time></td></tr>`;
const page = (...rows: string[]): string =>
  `<div data-live>${rows.length ? `<table><tbody>${rows.join("")}</tbody></table>` : "<p>None yet</p>"}</div>`;
const ids = (): string[] => Array.from(document.querySelectorAll("tr"), (one) => one.id);

let root: HTMLElement;

beforeEach(() => {
  document.body.innerHTML = `<div id="root">${page(row("1", "one"), row("2", "two"))}</div>`;
  root = document.getElementById("root") as HTMLElement;
});

test("a new workflow is added on top and the other rows are kept", () => {
  const known = document.getElementById("row-1");
  patchList(root, page(row("3", "three"), row("1", "one"), row("2", "two")));
  expect(ids()).toEqual(["row-3", "row-1", "row-2"]);
  expect(document.getElementById("row-1")).toBe(known);
});

test("a changed row is replaced in place and keeps the focus", () => {
  document.querySelector<HTMLElement>("#row-2 a")?.focus();
  patchList(root, page(row("1", "one"), row("2", "two, done")));
  expect(ids()).toEqual(["row-1", "row-2"]);
  expect(document.activeElement?.textContent).toBe("two, done");
});

test("a changed relative time does not replace a row", () => {
  const known = document.getElementById("row-2");
  patchList(root, page(row("1", "one", "1 min ago"), row("2", "two", "1 min ago")));
  expect(document.getElementById("row-2")).toBe(known);
});

test("missing rows are removed, and the order follows the server", () => {
  patchList(root, page(row("2", "two"), row("1", "one")));
  expect(ids()).toEqual(["row-2", "row-1"]);
  patchList(root, page(row("1", "one!")));
  expect(ids()).toEqual(["row-1"]);
});

test("the first workflow replaces the empty list", () => {
  patchList(root, page());
  expect(root.textContent).toBe("None yet");
  patchList(root, page(row("9", "nine")));
  expect(ids()).toEqual(["row-9"]);
});

test("a response without a list changes nothing", () => {
  patchList(root, "<p>Sign in</p>");
  expect(ids()).toHaveLength(2);
});
