import { afterEach, expect, test } from "vitest";
import { listKeys } from "./list-keys.ts";

let cleanUp: () => void = () => undefined;
afterEach(() => cleanUp());

function page(html: string): void {
  document.body.innerHTML = html;
  cleanUp = listKeys(document.querySelector<HTMLElement>("[data-island]")!);
}

function press(key: string, target: EventTarget = document.body): string {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  return document.activeElement?.textContent ?? "";
}

const ROWS = ["a", "b", "c"].map((name) => `<tr><td><a href="#${name}">${name}</a><a href="#">x</a></td></tr>`);
const TABLE = `<input><table data-island="list-keys"><thead><tr><th><a href="#sort">Sort</a></th></tr></thead>
  <tbody>${ROWS.join("")}<tr><td>no link</td></tr></tbody></table>`;

test("J and K focus the first link of each row and stop at the ends", () => {
  page(TABLE);

  expect(["j", "j", "K", "k"].map((key) => press(key))).toEqual(["a", "b", "a", "a"]);
});

test("K starts at the end, and both start at the current row", () => {
  page(TABLE);
  expect(press("k")).toBe("c");
  cleanUp();

  page(`<ul data-island="list-keys"><li><a href="#a">a</a></li><li><a href="#b" aria-current="page">b</a></li>
    <li><a href="#c">c</a></li></ul>`);
  expect(press("j")).toBe("c");
});

test("J on a row's second link goes to the next row", () => {
  page(TABLE);
  document.querySelectorAll<HTMLElement>("tbody a")[1]!.focus();

  expect(press("j")).toBe("b");
});

test("typed keys and keys with a modifier are ignored", () => {
  page(TABLE);
  const field = document.querySelector("input")!;
  field.focus();
  press("j", field);
  expect(document.activeElement).toBe(field);

  field.blur();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", ctrlKey: true }));
  expect(document.activeElement).toBe(document.body);
});
