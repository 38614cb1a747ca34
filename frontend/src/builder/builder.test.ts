import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "../lib/samples/socket.ts";
import builder from "./builder.ts";
import { type Parts, partsIn, swap } from "./builder.ts";
import { highlight } from "./form.ts";

const form = (name: string, description: string, revision: number): string => `
  <div data-live="panel"><form data-build-form>
    <input type="hidden" name="revision" value="${revision}" data-part="revision">
    <div class="field"><input name="name" value="${name}" data-part="name"></div>
    <div class="field"><textarea name="description" data-part="description">${description}</textarea></div>
    <select name="provider" data-part="provider"><option value="demo" selected>Demo</option><option value="gemini">G</option></select>
  </form></div>
  <div data-live="changes"><ol><li data-change="name">r${revision}</li></ol></div>
  <data data-build-revision value="${revision}"></data>`;

const partsOf = (html: string): Parts =>
  partsIn(new DOMParser().parseFromString(html, "text/html"));

const field = (name: string): HTMLInputElement =>
  document.querySelector<HTMLInputElement>(`[name=${name}]`) as HTMLInputElement;

beforeEach(() => {
  document.body.innerHTML = form("Old", "Words", 1);
});

test("an unedited field and the revision follow the draft", () => {
  swap(partsOf(form("New", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("New");
  expect(field("revision").value).toBe("2");
  expect(document.querySelector("[data-change]")?.textContent).toBe("r2");
});

test("unsaved input is kept, and a concurrent change is reported", () => {
  field("name").value = "Mine";
  field("description").value = "My words";
  swap(partsOf(form("New", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("Mine");
  expect(field("description").value).toBe("My words");
  expect(document.querySelectorAll(".field-also")).toHaveLength(1);
});

test("another tab replaces the panel completely", () => {
  const page = partsOf('<div data-live="panel"><p>Canvas</p></div>');
  swap(page, { keepForm: false });
  expect(document.querySelector("[data-live=panel]")?.textContent).toBe("Canvas");
  expect(document.querySelector("[data-live=changes]")?.textContent).toContain("r1");
});

test("changed fields are highlighted", () => {
  highlight(document.body, ["name"]);
  expect(field("name").hasAttribute("data-lit")).toBe(true);
  expect(document.querySelector("[data-change=name]")?.hasAttribute("data-lit")).toBe(true);
  expect(field("description").hasAttribute("data-lit")).toBe(false);
});

test("names from a model are shown as text, never as elements", () => {
  swap(partsOf(form("&lt;img src=x onerror=boom()&gt;", "Words", 2)), { keepForm: true });
  expect(field("name").value).toBe("<img src=x onerror=boom()>");
  expect(document.querySelector("img")).toBeNull();
});

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
let sides: Record<string, string | null>;
let close: () => void = () => undefined;
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

/** Open the page with its tabs; `sides` holds the server's response for each, or null for none. */
function open(): void {
  sides = { configure: form("Old", "Words", 1), policy: '<div data-live="panel"><p>Rules</p></div>' };
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("scrollTo", () => undefined);
  vi.stubGlobal("fetch", async (address: string) => {
    const page = sides[new URL(address, location.href).searchParams.get("tab") ?? ""];
    if (page === null) throw new TypeError("Failed to fetch");
    return new Response(page);
  });
  document.body.innerHTML = `<input name="csrfmiddlewaretoken"><div data-island="builder" data-side="/side/" data-tab="configure">
    <a class="build-tab" data-tab-link="configure" aria-current="page"></a><a class="build-tab" data-tab-link="policy"></a>
    <p data-build-said></p><p data-build-lost hidden></p><div class="build-scroll">${form("Old", "Words", 1)}</div></div>`;
  close = builder($("[data-island]")) as () => void;
}
const go = (tab: string): void => $(`[data-tab-link=${tab}]`).click();
const leave = (): boolean => !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));

test("unsaved input survives a visit to another tab, and leaving asks first", async () => {
  open();
  expect(leave()).toBe(false);
  field("name").value = "Mine";
  field("description").value = "My words";
  expect(leave()).toBe(true);
  go("policy");
  await vi.waitFor(() => expect($("[data-live=panel]").textContent).toBe("Rules"));
  expect(leave()).toBe(true);
  sides["configure"] = form("New", "Words", 2);
  go("configure");
  await vi.waitFor(() => expect(field("name")).not.toBeNull());

  expect([field("name").value, field("description").value]).toEqual(["Mine", "My words"]);
  expect(field("revision").value).toBe("2");
  expect(document.querySelectorAll(".field-also")).toHaveLength(1);
});

test("a tab that cannot be loaded is not shown, and an error is", async () => {
  open();
  sides["policy"] = null;
  go("policy");
  await vi.waitFor(() => expect($("[data-build-lost]").hidden).toBe(false));
  expect($("[data-tab-link=configure]").getAttribute("aria-current")).toBe("page");
  expect(field("name").value).toBe("Old");
  sides["policy"] = '<div data-live="panel"><p>Rules</p></div>';
  go("policy");

  await vi.waitFor(() => expect($("[data-live=panel]").textContent).toBe("Rules"));
  expect($("[data-build-lost]").hidden).toBe(true);
});
