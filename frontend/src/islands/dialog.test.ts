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
  // jsdom implements the element but not `showModal`.
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

test("the link opens the dialog instead of its page", () => {
  expect(click().defaultPrevented).toBe(true);
  expect(box.open).toBe(true);
});

test("a link opened in a new tab is left to the browser", () => {
  const event = new MouseEvent("click", { cancelable: true, ctrlKey: true });
  link.addEventListener("click", (click) => {
    expect(click.defaultPrevented).toBe(false);
    click.preventDefault();
  });
  link.dispatchEvent(event);

  expect(box.open).toBe(false);
});

test("a click on the backdrop closes the dialog, a click inside does not", () => {
  click();
  box.querySelector("p")!.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  expect(box.open).toBe(true);
  box.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  expect(box.open).toBe(false);
});
