import { beforeEach, expect, test, vi } from "vitest";
import type { Rest } from "../lib/rest.ts";
import { Ratings } from "./ratings.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const put = vi.fn(async () => undefined);
const remove = vi.fn(async () => undefined);
let ratings: Ratings;

const act = (name: string): unknown => ratings.actions[name]!($(`[data-action=${name}]`), $("[data-seq]"));

beforeEach(() => {
  put.mockClear();
  remove.mockClear();
  document.body.innerHTML = `<ol><li data-key="e1" data-seq="4"><button data-action="good"></button><button data-action="bad"></button></li></ol>
    <template data-template="feedback"><form data-action="rate"><span data-ask></span><input name="reason"></form></template>`;
  const rest = { put, remove } as unknown as Rest;
  ratings = new Ratings({ rest, api: "/api/v1/sessions/s1/", templates: document, given: { "4": 1 } });
  ratings.mark(document);
});

test("an answer shows how the person rated it, and the same thumb takes it back", async () => {
  expect($("[data-action=good]").getAttribute("aria-pressed")).toBe("true");
  await act("good");

  expect(remove).toHaveBeenCalledWith("/api/v1/sessions/s1/feedback/4/");
  expect($("[data-action=good]").getAttribute("aria-pressed")).toBe("false");
  expect(document.querySelector("form")).toBeNull();
});

test("a bad answer is stored at once, and its reason when it is sent", async () => {
  await act("bad");
  expect(put).toHaveBeenCalledWith("/api/v1/sessions/s1/feedback/4/", { rating: -1 });
  expect($("[data-ask]").textContent).toBe("What was wrong?");
  $<HTMLInputElement>("form input").value = "Too long";
  await ratings.actions["rate"]!($("form"), $("[data-seq]"));

  expect(put).toHaveBeenLastCalledWith("/api/v1/sessions/s1/feedback/4/", { rating: -1, reason: "Too long" });
  expect(document.querySelector("form")).toBeNull();
});
