import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { palette } from "./palette.ts";

let box: HTMLDialogElement;
let input: HTMLInputElement;
let cleanUp: () => void;
const followed: string[] = [];

beforeEach(() => {
  followed.length = 0;
  document.body.innerHTML = `<button data-palette>Search</button><dialog>
    <input role="combobox"><div role="listbox">
    <a role="option" id="o1" href="#home">Home</a>
    <a role="option" id="o2" href="#members">Members <span>Settings</span></a>
    <a role="option" id="o3" href="#keys">API keys <span>Settings</span></a></div>
    <p data-none hidden>Nothing found</p></dialog>`;
  box = document.querySelector("dialog")!;
  input = document.querySelector("input")!;
  box.showModal = () => void (box.open = true);
  box.close = () => void (box.open = false);
  for (const option of box.querySelectorAll("a")) {
    option.addEventListener("click", () => followed.push(option.getAttribute("href") ?? ""));
  }
  cleanUp = palette(box);
});
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

function press(key: string, init: KeyboardEventInit = {}): void {
  input.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...init }));
}

function type(text: string): void {
  input.value = text;
  input.dispatchEvent(new Event("input"));
}

const selected = (): string | undefined =>
  box.querySelector('[aria-selected="true"]')?.getAttribute("href") ?? undefined;

test("Ctrl-K and Command-K open and close the palette", () => {
  press("k", { ctrlKey: true });
  expect(box.open).toBe(true);
  press("k", { metaKey: true });
  expect(box.open).toBe(false);
});

test("the button opens the palette with the first entry selected", () => {
  document.querySelector("button")!.click();

  expect(box.open).toBe(true);
  expect(selected()).toBe("#home");
});

test("words narrow the list in any order, and Enter follows the selected entry", () => {
  press("k", { ctrlKey: true });
  type("sett key");

  expect(selected()).toBe("#keys");
  press("Enter");
  expect(followed).toEqual(["#keys"]);
  expect(box.open).toBe(false);
});

test("arrow keys cycle through the visible entries", () => {
  press("k", { ctrlKey: true });
  type("settings");
  press("ArrowDown");
  expect(selected()).toBe("#keys");
  press("ArrowDown");
  expect(selected()).toBe("#members");
  press("ArrowUp");
  expect(selected()).toBe("#keys");
  expect(input.getAttribute("aria-activedescendant")).toBe("o3");
});

test("an empty result is reported, and Enter does nothing", () => {
  press("k", { ctrlKey: true });
  type("zebra");

  expect(box.querySelector<HTMLElement>("[data-none]")?.hidden).toBe(false);
  press("Enter");
  expect(followed).toEqual([]);
});

test("the input is cleared when the palette opens again", () => {
  press("k", { ctrlKey: true });
  type("zebra");
  press("k", { ctrlKey: true });
  press("k", { ctrlKey: true });

  expect(input.value).toBe("");
  expect(selected()).toBe("#home");
});

test("keys of an input method are ignored", () => {
  press("k", { ctrlKey: true });
  press("ArrowDown", { isComposing: true });
  press("Enter", { isComposing: true });

  expect(selected()).toBe("#home");
  expect(followed).toEqual([]);
});

test("results of the server come last and keep the selection", async () => {
  box.querySelector("[role=listbox]")!.insertAdjacentHTML("beforeend", `<div data-found="/palette/"></div>`);
  cleanUp();
  cleanUp = palette(box);
  const ask = vi.fn(async (_url: string) => new Response(`<a role="option" id="f1" href="#chat">Home of keys</a>`));
  vi.stubGlobal("fetch", ask);
  press("k", { ctrlKey: true });
  type("keys");
  await vi.waitFor(() => expect(box.querySelectorAll("[role=option]")).toHaveLength(4));
  expect(ask).toHaveBeenCalledWith("/palette/?q=keys", expect.anything());
  expect(selected()).toBe("#keys");

  type("home keys");
  expect(selected()).toBe("#chat");
  ask.mockImplementation(async () => new Response(""));
  type("nothing like it");
  const none = box.querySelector<HTMLElement>("[data-none]")!;
  await vi.waitFor(() => expect(none.hidden).toBe(false));
});
