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

test("Ctrl-K and Command-K open it and close it again", () => {
  press("k", { ctrlKey: true });
  expect(box.open).toBe(true);
  press("k", { metaKey: true });
  expect(box.open).toBe(false);
});

test("the button opens it with the first entry chosen", () => {
  document.querySelector("button")!.click();

  expect(box.open).toBe(true);
  expect(selected()).toBe("#home");
});

test("every typed word narrows, in any order, and Enter follows what is left", () => {
  press("k", { ctrlKey: true });
  type("sett key");

  expect(selected()).toBe("#keys");
  press("Enter");
  expect(followed).toEqual(["#keys"]);
  expect(box.open).toBe(false);
});

test("arrows go around the shown entries only", () => {
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

test("nothing found is said, and Enter then does nothing", () => {
  press("k", { ctrlKey: true });
  type("zebra");

  expect(box.querySelector<HTMLElement>("[data-none]")?.hidden).toBe(false);
  press("Enter");
  expect(followed).toEqual([]);
});

test("the words of the last time are gone at the next opening", () => {
  press("k", { ctrlKey: true });
  type("zebra");
  press("k", { ctrlKey: true });
  press("k", { ctrlKey: true });

  expect(input.value).toBe("");
  expect(selected()).toBe("#home");
});

test("keys of an input method choose among its words, not among the pages", () => {
  press("k", { ctrlKey: true });
  press("ArrowDown", { isComposing: true });
  press("Enter", { isComposing: true });

  expect(selected()).toBe("#home");
  expect(followed).toEqual([]);
});

test("what the server finds by its name stands last, and what Enter would do stays", async () => {
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
