import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { enterSubmit } from "./enter-submit.ts";

let sent = 0;
let cleanUp: () => void;

function mount(byTouch = false): HTMLTextAreaElement {
  vi.stubGlobal("matchMedia", () => ({ matches: byTouch }));
  document.body.innerHTML = `<form><textarea name="text"></textarea><button>Build it</button></form>`;
  const form = document.querySelector("form")!;
  cleanUp = enterSubmit(form) as () => void;
  form.addEventListener("submit", (event) => {
    if (!event.defaultPrevented) sent += 1;
    event.preventDefault();
  });
  return document.querySelector("textarea")!;
}

/** Press Enter; true if the key was left to the browser, which inserts a new line. */
const press = (area: HTMLElement, more: KeyboardEventInit = {}): boolean =>
  area.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...more }),
  );

beforeEach(() => (sent = 0));
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

test("Enter submits the text once", () => {
  const area = mount();
  expect(press(area)).toBe(false);
  expect(sent).toBe(0);
  area.value = "Make an agent";
  press(area);
  press(area);
  expect(sent).toBe(1);

  window.dispatchEvent(new Event("pageshow"));
  press(area);
  expect(sent).toBe(2);
});

test.each([{ shiftKey: true }, { isComposing: true }])("Enter with %o inserts a new line", (how) => {
  const area = mount();
  area.value = "Make an agent";

  expect(press(area, how)).toBe(true);
  expect(sent).toBe(0);
});

test("Enter inserts a new line on a touch device", () => {
  const area = mount(true);
  area.value = "Make an agent";

  expect(press(area)).toBe(true);
  expect(sent).toBe(0);
});
