import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { inspector } from "./inspector.ts";

let isPhone = false;
let cleanUp = (): void => undefined;

beforeEach(() => {
  isPhone = false;
  localStorage.clear();
  vi.stubGlobal("matchMedia", () => ({ matches: isPhone }));
});
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

function mount(inside = "<p>Run</p>"): HTMLElement {
  document.body.innerHTML = `<button data-inspector></button><aside>${inside}</aside>`;
  const aside = document.querySelector("aside")!;
  cleanUp = inspector(aside);
  return aside;
}

const isOpen = (aside: HTMLElement): boolean => !aside.hasAttribute("data-closed");

test("Ctrl-. closes the inspector, and the next page remembers it", () => {
  const aside = mount();
  expect(isOpen(aside)).toBe(true);
  document.dispatchEvent(new KeyboardEvent("keydown", { key: ".", ctrlKey: true }));
  expect(isOpen(aside)).toBe(false);
  cleanUp();

  expect(isOpen(mount())).toBe(false);
});

test("the button says whether the inspector is open", () => {
  mount();
  const button = document.querySelector("button")!;
  expect(button.getAttribute("aria-expanded")).toBe("true");
  button.click();
  expect(button.getAttribute("aria-expanded")).toBe("false");
});

test("the inspector starts closed on a phone", () => {
  isPhone = true;

  expect(isOpen(mount())).toBe(false);
});

test("an empty inspector ignores the key", () => {
  const aside = mount("");
  document.dispatchEvent(new KeyboardEvent("keydown", { key: ".", ctrlKey: true }));

  expect(isOpen(aside)).toBe(true);
  expect(localStorage.getItem("inspector")).toBeNull();
});

test("Escape closes the sheet on a phone and does not reach the chat behind it", () => {
  isPhone = true;
  const aside = mount();
  document.querySelector("button")!.click();
  expect(isOpen(aside)).toBe(true);
  const escape = new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true });
  document.body.dispatchEvent(escape);

  expect(isOpen(aside)).toBe(false);
  expect(escape.defaultPrevented).toBe(true);
});

test("Escape leaves the inspector beside the page open", () => {
  const aside = mount();
  const escape = new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true });
  document.body.dispatchEvent(escape);

  expect(isOpen(aside)).toBe(true);
  expect(escape.defaultPrevented).toBe(false);
});
