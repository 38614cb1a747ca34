import { expect, test } from "vitest";
import { firstLinkOfEachRow } from "../lib/keys.ts";
import { filter } from "./filter.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

function type(words: string): string[] {
  $<HTMLInputElement>("input").value = words;
  $("input").dispatchEvent(new Event("input"));
  return [...document.querySelectorAll<HTMLElement>("li")].filter((row) => !row.hidden).map((row) => row.id);
}

test("a list shows the rows with all words, reports when there are none, and keys skip hidden rows", () => {
  document.body.innerHTML = `<input data-in="#rows > li" data-none="none"><p id="none" hidden>None.</p>
    <ul id="rows"><li id="a"><a href="/a/">Coder</a> writes <b>code</b></li>
    <li id="b"><a href="/b/">Concierge</a> writes letters</li></ul>`;
  const cleanUp = filter($("input"));

  expect(type("WRITES")).toEqual(["a", "b"]);
  expect(type("letters  con")).toEqual(["b"]);
  expect(firstLinkOfEachRow($("#rows")).map((link) => link.textContent)).toEqual(["Concierge"]);
  expect($("#none").hidden).toBe(true);
  expect(type("zebra")).toEqual([]);
  expect($("#none").hidden).toBe(false);
  expect(type("")).toEqual(["a", "b"]);
  expect($("#none").hidden).toBe(true);
  cleanUp();
});
