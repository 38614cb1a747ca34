import { afterEach, beforeEach, expect, test } from "vitest";
import { menu } from "./menu.ts";

let box: HTMLDetailsElement;
let cleanUp: () => void;

beforeEach(() => {
  document.body.innerHTML = `<details open><summary tabindex="0">Account</summary>
    <div><a href="/one">One</a><button>Two</button></div></details><button id="outside"></button>`;
  box = document.querySelector("details")!;
  cleanUp = menu(box);
});
afterEach(() => cleanUp());

function press(key: string): void {
  const target = document.activeElement ?? box;
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

test("Escape closes the menu and focuses its summary", () => {
  box.querySelector("a")!.focus();
  press("Escape");

  expect(box.open).toBe(false);
  expect(document.activeElement).toBe(box.querySelector("summary"));
});

test("a click outside closes the menu, a click inside does not", () => {
  box.querySelector("a")!.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  expect(box.open).toBe(true);
  document.body.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  expect(box.open).toBe(false);
});

test("arrow keys move through the items and wrap around", () => {
  box.querySelector("summary")!.focus();
  press("ArrowDown");
  expect(document.activeElement?.textContent).toBe("One");
  press("ArrowDown");
  expect(document.activeElement?.textContent).toBe("Two");
  press("ArrowDown");
  expect(document.activeElement?.textContent).toBe("One");
  press("ArrowUp");
  expect(document.activeElement?.textContent).toBe("Two");
});

test("the menu closes when it loses the focus", () => {
  box.querySelector("a")!.focus();
  document.querySelector<HTMLElement>("#outside")!.focus();

  expect(box.open).toBe(false);
});
