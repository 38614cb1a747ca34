import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { themeChoice, themeFlip } from "./theme.ts";

let systemIsDark = false;
let cleanUp = (): void => undefined;

beforeEach(() => {
  systemIsDark = false;
  localStorage.clear();
  delete document.documentElement.dataset["theme"];
  vi.stubGlobal("matchMedia", () => ({ matches: systemIsDark }));
});
afterEach(() => cleanUp());

const theme = (): string | undefined => document.documentElement.dataset["theme"];

function mountFlip(): HTMLElement {
  document.body.innerHTML = `<button>Theme</button>`;
  const button = document.querySelector("button")!;
  cleanUp = themeFlip(button);
  return button;
}

function mountChoice(): Record<string, HTMLElement> {
  document.body.innerHTML = `<div><button data-choice="system"></button>
    <button data-choice="light"></button><button data-choice="dark"></button></div>`;
  cleanUp = themeChoice(document.querySelector("div")!);
  const buttons = [...document.querySelectorAll<HTMLElement>("button")];
  return Object.fromEntries(buttons.map((button) => [button.dataset["choice"], button]));
}

test("the first toggle changes the system's theme", () => {
  systemIsDark = true;
  mountFlip().click();

  expect(theme()).toBe("switchyard-light");
  expect(localStorage.getItem("theme")).toBe("light");
});

test("two toggles restore the theme", () => {
  const button = mountFlip();
  button.click();
  expect(theme()).toBe("switchyard-dark");
  button.click();
  expect(theme()).toBe("switchyard-light");
});

test("the current choice is shown as pressed", () => {
  localStorage.setItem("theme", "dark");
  const buttons = mountChoice();

  expect(buttons["dark"]?.getAttribute("aria-pressed")).toBe("true");
  expect(buttons["light"]?.getAttribute("aria-pressed")).toBe("false");
});

test("choosing the system forgets the stored theme", () => {
  const buttons = mountChoice();
  buttons["dark"]?.click();
  expect(theme()).toBe("switchyard-dark");
  buttons["system"]?.click();

  expect(theme()).toBeUndefined();
  expect(localStorage.getItem("theme")).toBeNull();
  expect(buttons["system"]?.getAttribute("aria-pressed")).toBe("true");
});

test("a choice made in another tab is followed", () => {
  const buttons = mountChoice();
  localStorage.setItem("theme", "light");
  window.dispatchEvent(new StorageEvent("storage", { key: "theme" }));

  expect(theme()).toBe("switchyard-light");
  expect(buttons["light"]?.getAttribute("aria-pressed")).toBe("true");
});
