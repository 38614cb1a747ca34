import { afterEach, beforeEach, expect, test, vi } from "vitest";
import chatList, { regroup } from "./chat-list.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const NOW = new Date(2026, 2, 10, 9, 0);

function row(id: string, at: Date): string {
  return `<li id="${id}" data-at="${at.toISOString()}"><a href="/chat/${id}/">${id}</a><a href="/chat/${id}/options/" data-chat-options>⋯</a></li>`;
}

function page(html: string): void {
  document.body.innerHTML = `<aside data-url="/chat/list/" data-current="b"><input data-search>
    <nav data-rows>${html}</nav><p data-found></p></aside>`;
}

let cleanUp: (() => void) | undefined;
const asked = vi.fn();
beforeEach(() => {
  vi.useFakeTimers({ now: NOW, toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.stubGlobal("fetch", asked);
});
afterEach(() => {
  cleanUp?.();
  cleanUp = undefined;
  asked.mockReset();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("chats are grouped by the viewer's days, and pinned ones stay first", () => {
  page(`<section data-group="Pinned"><h2>Pinned</h2><ul>${row("p", new Date(2020, 1, 1))}</ul></section>
    <section data-group="Today"><h2>Today</h2><ul>${row("a", new Date(2026, 2, 10, 0, 1))}
    ${row("b", new Date(2026, 2, 9, 23, 59))}${row("c", new Date(2026, 2, 8, 23, 59))}</ul></section>`);
  regroup($("[data-rows]"), NOW);

  const groups = [...document.querySelectorAll("section")].map((group) => [
    group.querySelector("h2")!.textContent,
    [...group.querySelectorAll("li")].map((one) => one.id).join(),
  ]);
  expect(groups).toEqual([["Pinned", "p"], ["Today", "a"], ["Yesterday", "b"], ["Older", "c"]]);
});

test("typing shows the chats that match and keeps the current one marked", async () => {
  page(`<section data-group="Today"><ul>${row("a", NOW)}${row("b", NOW)}</ul></section>`);
  cleanUp = chatList($("aside"));
  asked.mockResolvedValue(new Response(`<section data-group="Today"><ul>${row("b", NOW)}</ul></section>`));

  $<HTMLInputElement>("input").value = "tea & jam";
  $("input").dispatchEvent(new Event("input"));
  await vi.advanceTimersByTimeAsync(200);

  expect(asked.mock.calls[0]![0]).toBe("/chat/list/?q=tea+%26+jam");
  expect([...document.querySelectorAll("li")].map((one) => one.id)).toEqual(["b"]);
  expect($("#b > a").getAttribute("aria-current")).toBe("page");
  expect($("[data-found]").textContent).toBe("1 chat");
});

test("arrow keys move from the search through the chats", () => {
  page(`<section data-group="Today"><ul>${row("a", NOW)}${row("b", NOW)}</ul></section>`);
  cleanUp = chatList($("aside"));
  $("input").focus();
  const press = (key: string): void => {
    document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  };

  press("ArrowDown");
  press("ArrowDown");
  expect(document.activeElement).toBe($("#b > a"));
  press("ArrowUp");
  press("ArrowUp");
  expect(document.activeElement).toBe($("input"));
});

test("Escape in the list is not passed on to the chat", () => {
  page("");
  cleanUp = chatList($("aside"));
  const event = new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true });
  $("input").dispatchEvent(event);

  expect(event.defaultPrevented).toBe(true);
});

test("options open in a dialog, and on their page if they cannot be loaded", async () => {
  page(`<section data-group="Today"><ul>${row("a", NOW)}</ul></section>`);
  HTMLDialogElement.prototype.showModal ??= function () {};
  cleanUp = chatList($("aside"));
  asked.mockResolvedValue(new Response(`<form><input name="title" value="a"></form>`));
  $("[data-chat-options]").click();
  await vi.waitFor(() => expect($("dialog input[name=title]")).not.toBeNull());

  expect(asked.mock.calls[0]![0]).toContain("/chat/a/options/?panel=1");
  expect($("dialog h2").textContent).toBe("Chat options");
});
