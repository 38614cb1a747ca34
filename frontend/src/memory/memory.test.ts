import { afterEach, beforeEach, expect, test, vi } from "vitest";
import memory from "./memory.ts";

const FORM = `
<form data-editor data-url="/api/v1/memory/1/">
  <input type="hidden" name="csrfmiddlewaretoken" value="token">
  <input type="hidden" name="expected_hash" value="one">
  <input name="path" value="a.md">
  <span data-status></span>
  <button type="button" data-view="write">Write</button><button type="button" data-view="split">Split</button>
  <button data-save>Save</button>
  <div data-panes="write"><textarea data-text data-most="20">first</textarea><div data-preview></div></div>
</form>`;
let stop: () => void = () => undefined;

function page(html: string): HTMLElement {
  document.body.innerHTML = `<div id="root">${html}</div><aside id="inspector">old</aside>`;
  const root = document.getElementById("root")!;
  stop = memory(root);
  return root;
}
const find = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

function type(text: string): void {
  find<HTMLTextAreaElement>("[data-text]").value = text;
  find("[data-text]").dispatchEvent(new Event("input", { bubbles: true }));
}
function answer(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status });
}

beforeEach(() => localStorage.clear());
afterEach(() => {
  stop();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test("Ctrl-S saves with the hash of the loaded text, and the next save with the new hash", async () => {
  page(FORM);
  const sent: { expected_hash: string; content: string }[] = [];
  const fetched = vi.fn(async (_url: string, given?: RequestInit) => {
    if (given?.method !== "PATCH") return new Response(`<aside id="inspector">new</aside>`);
    sent.push(JSON.parse(String(given.body)));
    return answer(200, { hash: "two", path: "a.md", version: 2 });
  });
  vi.stubGlobal("fetch", fetched);
  type("second");
  expect(find("[data-status]").textContent).toBe("Unsaved changes");
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "s", ctrlKey: true, cancelable: true }));
  await vi.waitFor(() => expect(find("[data-status]").textContent).toBe("Saved as version 2"));
  expect(find("#inspector").textContent).toBe("new");

  type("third");
  find<HTMLFormElement>("[data-editor]").requestSubmit();
  await vi.waitFor(() => expect(sent.length).toBe(2));
  expect(sent.map((one) => [one.expected_hash, one.content])).toEqual([
    ["one", "second"],
    ["two", "third"],
  ]);
});

test("a save is confirmed even if the rest of the page cannot be refreshed", async () => {
  page(FORM);
  vi.stubGlobal("fetch", async (_url: string, given?: RequestInit) => {
    if (given?.method !== "PATCH") throw new TypeError("Failed to fetch");
    return answer(200, { hash: "two", path: "a.md", version: 2 });
  });
  type("second");
  find<HTMLFormElement>("[data-editor]").requestSubmit();

  await vi.waitFor(() => expect(find("[data-status]").textContent).toBe("Saved as version 2"));
});

test("a conflict with a newer version is shown by the server's page", async () => {
  page(FORM);
  const submitted = vi.spyOn(HTMLFormElement.prototype, "submit").mockImplementation(() => undefined);
  vi.stubGlobal("fetch", async () => answer(409, { code: "memory_conflict", detail: "newer" }));
  type("mine");
  find<HTMLFormElement>("[data-editor]").requestSubmit();

  await vi.waitFor(() => expect(submitted).toHaveBeenCalledOnce());
});

test("any other refusal is shown, and the text is kept", async () => {
  page(FORM);
  vi.stubGlobal("fetch", async () => answer(409, { code: "conflict", detail: "That path is taken." }));
  type("mine");
  find<HTMLFormElement>("[data-editor]").requestSubmit();

  await vi.waitFor(() => expect(find("[data-status]").textContent).toBe("That path is taken."));
  expect(find<HTMLTextAreaElement>("[data-text]").value).toBe("mine");
  expect(find<HTMLButtonElement>("[data-save]").disabled).toBe(false);
});

test("a text that is too long is reported while typing", () => {
  page(FORM);
  type("ü".repeat(11));

  expect(find("[data-status]").textContent).toBe("Too long: 22 of 20 bytes");
});

test("the preview is safe and follows the text", async () => {
  page(FORM);
  find("[data-view=split]").click();
  type("# Head\n\n<img src=x onerror=alert(1)> **b**");

  await vi.waitFor(() => expect(find("[data-preview] strong").textContent).toBe("b"));
  expect(document.querySelector("img")).toBeNull();
});

test("J and K move through the visible documents", () => {
  page(`<details open><a href="#a" data-leaf>a</a><a href="#b" data-leaf>b</a></details>
    <details><a href="#c" data-leaf>c</a></details>`);
  const press = (key: string): string => {
    document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    return document.activeElement?.textContent ?? "";
  };

  expect([press("j"), press("j"), press("j"), press("k")]).toEqual(["a", "b", "b", "a"]);
});

test("a merge can take one side and reports remaining conflict markers", () => {
  page(`<button data-take="mine">Use mine</button><textarea id="mine">mine</textarea>
    <form data-merge><span data-status></span><textarea data-text><<<<<<< mine
a
=======
b
>>>>>>> theirs</textarea></form>`);
  expect(find("[data-status]").textContent).toContain("remaining conflicts");
  find("[data-take]").click();

  expect(find<HTMLTextAreaElement>("form [data-text]").value).toBe("mine");
  expect(find("[data-status]").textContent).toBe("");
});
