import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { clearNewChatText } from "./composer.ts";
import { start } from "./start.ts";

let root: HTMLElement;
let area: HTMLTextAreaElement;
let cleanUp: () => void;
let submitted: number;

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
  submitted = 0;
  localStorage.clear();
  document.body.innerHTML = `<div>
    <input type="radio" name="agent" data-name="Coder" form="composer">
    <form id="composer"><textarea name="text"></textarea><button data-send>Send</button></form></div>`;
  root = document.querySelector("div")!;
  area = document.querySelector("textarea")!;
  document.querySelector("form")!.addEventListener("submit", (event) => {
    event.preventDefault();
    submitted += 1;
  });
  cleanUp = start(root);
});
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

function press(init: KeyboardEventInit = {}): void {
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, ...init }));
}

test("the composer names the agent that is chosen", () => {
  document.querySelector<HTMLInputElement>("input")!.click();

  expect(area.placeholder).toBe("Message Coder");
});

test("a click on an agent leads to the composer, the arrows from agent to agent, and Enter on", () => {
  const agent = document.querySelector<HTMLInputElement>("input")!;
  const choose = (): boolean => agent.dispatchEvent(new Event("change", { bubbles: true }));
  const enter = (): boolean => agent.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  agent.focus();
  agent.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  choose();
  expect(document.activeElement).toBe(agent);
  enter();
  expect(document.activeElement).toBe(area);

  agent.focus();
  agent.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  choose();
  expect(document.activeElement).toBe(area);
});

test("whoever comes with a mouse may write at once", () => {
  cleanUp();
  expect(document.activeElement).not.toBe(area);
  vi.stubGlobal("matchMedia", (query: string) => ({ matches: query === "(hover: hover)" }));
  cleanUp = start(root);

  expect(document.activeElement).toBe(area);
});

test("Enter sends what is written, and only that", () => {
  press();
  area.value = "hello";
  area.dispatchEvent(new Event("input"));
  press({ shiftKey: true });
  expect(submitted).toBe(0);
  press();

  expect(submitted).toBe(1);
});

test("the button is there when there is something to send", () => {
  const button = document.querySelector<HTMLButtonElement>("[data-send]")!;
  expect(button.disabled).toBe(true);
  area.value = "hello";
  area.dispatchEvent(new Event("input"));

  expect(button.disabled).toBe(false);
});

test("a page on which nothing can be said is left alone", () => {
  expect(start(document.createElement("div"))()).toBeUndefined();
});

test("a first message that is not sent yet is there again, until its session has it", () => {
  area.value = "a long\nquestion";
  area.dispatchEvent(new Event("input"));
  press();
  area.value = "";
  cleanUp();
  cleanUp = start(root);
  expect(area.value).toBe("a long\nquestion");

  clearNewChatText(localStorage, "something else");
  expect(localStorage.getItem("chat-draft:new")).toBe("a long\nquestion");
  clearNewChatText(localStorage, "a long\r\nquestion");
  expect(localStorage.getItem("chat-draft:new")).toBeNull();
});

test("the chosen agent is in sight, however many there are", () => {
  const shown: string[] = [];
  const card = document.createElement("div");
  card.className = "agent-card";
  card.innerHTML = `<input type="radio" name="agent" checked>`;
  card.scrollIntoView = (how) => void shown.push((how as ScrollIntoViewOptions).block!);
  cleanUp();
  root.querySelectorAll<HTMLInputElement>("[name=agent]").forEach((one) => (one.checked = false));
  root.append(card);
  cleanUp = start(root);

  expect(shown).toEqual(["nearest"]);
});
