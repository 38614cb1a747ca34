import { afterEach, beforeEach, expect, test } from "vitest";
import { dialog } from "./dialog.ts";

let link: HTMLAnchorElement;
let box: HTMLDialogElement;
let cleanUp: () => void;

beforeEach(() => {
  document.body.innerHTML = `<a href="/new/" data-dialog="box">New</a>
    <dialog id="box"><p>Inside</p></dialog>`;
  link = document.querySelector("a")!;
  box = document.querySelector("dialog")!;
  // jsdom knows the element but not its top layer.
  box.showModal = () => void (box.open = true);
  box.close = () => void (box.open = false);
  cleanUp = dialog(link);
});
afterEach(() => cleanUp());

function click(init: MouseEventInit = {}): MouseEvent {
  const event = new MouseEvent("click", { bubbles: true, cancelable: true, ...init });
  link.dispatchEvent(event);
  return event;
}

test("the link opens the dialog and goes nowhere", () => {
  expect(click().defaultPrevented).toBe(true);
  expect(box.open).toBe(true);
});

test("a link opened in a new tab stays a link", () => {
  const event = new MouseEvent("click", { cancelable: true, ctrlKey: true });
  link.addEventListener("click", (click) => {
    expect(click.defaultPrevented).toBe(false);
    click.preventDefault();
  });
  link.dispatchEvent(event);

  expect(box.open).toBe(false);
});

test("a press on the backdrop closes, a press inside does not", () => {
  click();
  box.querySelector("p")!.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  expect(box.open).toBe(true);
  box.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  expect(box.open).toBe(false);
});
