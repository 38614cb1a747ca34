import { beforeEach, expect, test, vi } from "vitest";
import { attach, type ModelChoice } from "./model-picker.ts";

const choose = vi.fn(async (_choice: ModelChoice) => undefined);
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const shown = (): string[] =>
  [...document.querySelectorAll<HTMLButtonElement>("button[name=model]")]
    .filter((row) => !row.closest("[hidden]"))
    .map((row) => row.value);

beforeEach(() => {
  choose.mockClear();
  document.body.innerHTML = `<form data-models><input data-search><select data-provider><option></option><option>openai</option></select>
    <ul><li><button name="model" value="/" data-name="demo">The agent's model</button></li></ul>
    <section data-provider-rows="openai"><ul><li><button name="model" value="openai/meta/llama" data-name="meta/llama">meta/llama 8k tokens</button></li>
      <li><button name="model" value="openai/gpt-4o" data-name="gpt-4o">gpt-4o</button></li></ul></section>
    <section data-provider-rows="gemini"><ul><li><button name="model" value="gemini/flash" data-name="flash">flash</button></li></ul></section>
    <p data-none hidden></p></form>`;
  attach(document.body, "/chat/s1/model/", choose);
});

test("the list is searched as one types and filtered by provider", () => {
  $<HTMLInputElement>("[data-search]").value = "llama 8k";
  $("[data-search]").dispatchEvent(new Event("input"));
  expect(shown()).toEqual(["openai/meta/llama"]);
  $<HTMLInputElement>("[data-search]").value = "";
  $<HTMLSelectElement>("[data-provider]").value = "openai";
  $("[data-provider]").dispatchEvent(new Event("change"));

  expect(shown()).toEqual(["/", "openai/meta/llama", "openai/gpt-4o"]);
});

test("Enter chooses the only match, also of a model whose name has a slash", async () => {
  $<HTMLInputElement>("[data-search]").value = "llama";
  $("[data-search]").dispatchEvent(new Event("input"));
  $("[data-search]").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));

  await vi.waitFor(() =>
    expect(choose).toHaveBeenCalledWith({ provider: "openai", model: "meta/llama", name: "meta/llama" }),
  );
});

test("arrow keys move through the rows and back to the search", () => {
  const press = (key: string): boolean =>
    document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  press("ArrowDown");
  expect(document.activeElement).toBe($("[value='/']"));
  press("ArrowUp");

  expect(document.activeElement).toBe($("[data-search]"));
});
