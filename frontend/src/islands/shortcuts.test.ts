import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { shortcuts } from "./shortcuts.ts";

let help: HTMLDialogElement;
let cleanUp: () => void;
const followed: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("CSS", { escape: (text: string) => text.replaceAll(/\W/g, "\\$&") });
  followed.length = 0;
  document.body.innerHTML = `<a href="#memory" data-go="m">Memory</a>
    <a href="#new" data-key="n">New</a><input data-key="/"><dialog></dialog>`;
  for (const link of document.querySelectorAll("a")) {
    link.addEventListener("click", () => followed.push(link.getAttribute("href") ?? ""));
  }
  help = document.querySelector("dialog")!;
  help.showModal = () => void (help.open = true);
  cleanUp = shortcuts(help);
});
afterEach(() => {
  cleanUp();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function press(key: string, init: KeyboardEventInit = {}, target: Element = document.body): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init }));
}

test("G then M opens memory", () => {
  press("g");
  press("m");

  expect(followed).toEqual(["#memory"]);
});

test("G is forgotten after a moment", () => {
  press("g");
  vi.advanceTimersByTime(1_500);
  press("m");

  expect(followed).toEqual([]);
});

test("a key clicks the link or focuses the field that names it", () => {
  press("n");
  press("/");

  expect(followed).toEqual(["#new"]);
  expect(document.activeElement).toBe(document.querySelector("input"));
});

test("a global shortcut applies when the page has none for the key", () => {
  document.body.insertAdjacentHTML("afterbegin", `<a href="#chat" data-key-else="n">Chat</a>`);
  const chat = document.querySelector("a")!;
  chat.addEventListener("click", () => followed.push("#chat"));
  press("n");
  document.querySelector("[data-key=n]")!.remove();
  press("n");

  expect(followed).toEqual(["#new", "#chat"]);
});

test("a question mark opens the help, which disables other shortcuts", () => {
  press("?", { shiftKey: true });
  expect(help.open).toBe(true);
  press("n");
  expect(followed).toEqual([]);
});

test("keys typed into a field are ignored", () => {
  press("n", {}, document.querySelector("input")!);

  expect(followed).toEqual([]);
});

test("keys with Ctrl, Alt or Command are left to the browser", () => {
  press("n", { ctrlKey: true });
  press("n", { metaKey: true });
  press("n", { altKey: true });

  expect(followed).toEqual([]);
});
