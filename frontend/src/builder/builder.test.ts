import { beforeEach, expect, test } from "vitest";
import { light } from "./form.ts";
import { partsIn, swap } from "./swap.ts";

const form = (name: string, description: string, revision: number): string => `
  <div data-live="panel"><form data-build-form>
    <input type="hidden" name="revision" value="${revision}" data-part="revision">
    <div class="field"><input name="name" value="${name}" data-part="name"></div>
    <div class="field"><textarea name="description" data-part="description">${description}</textarea></div>
    <select name="provider" data-part="provider"><option value="demo" selected>Demo</option><option value="gemini">G</option></select>
  </form></div>
  <div data-live="changes"><ol><li data-change="name">r${revision}</li></ol></div>
  <data data-build-revision value="${revision}"></data>`;

const field = (name: string): HTMLInputElement =>
  document.querySelector<HTMLInputElement>(`[name=${name}]`) as HTMLInputElement;

beforeEach(() => {
  document.body.innerHTML = form("Old", "Words", 1);
});

test("a field that nobody edits follows the draft, and so does the revision", () => {
  swap(partsIn(form("New", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("New");
  expect(field("revision").value).toBe("2");
  expect(document.querySelector("[data-change]")?.textContent).toBe("r2");
});

test("what is being typed is kept, and a change under it is said", () => {
  field("name").value = "Mine";
  field("description").value = "My words";
  swap(partsIn(form("New", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("Mine");
  expect(field("description").value).toBe("My words");
  expect(document.querySelectorAll(".field-also")).toHaveLength(1);
});

test("another tab is shown whole", () => {
  const page = partsIn('<div data-live="panel"><p>Canvas</p></div>');
  swap(page, { keepForm: false });
  expect(document.querySelector("[data-live=panel]")?.textContent).toBe("Canvas");
  expect(document.querySelector("[data-live=changes]")?.textContent).toContain("r1");
});

test("what changed lights up", () => {
  light(document.body, ["name"]);
  expect(field("name").hasAttribute("data-lit")).toBe(true);
  expect(document.querySelector("[data-change=name]")?.hasAttribute("data-lit")).toBe(true);
  expect(field("description").hasAttribute("data-lit")).toBe(false);
});

test("names that a model chose are text, never elements", () => {
  swap(partsIn(form("&lt;img src=x onerror=boom()&gt;", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("<img src=x onerror=boom()>");
  expect(document.querySelector("img")).toBeNull();
});
