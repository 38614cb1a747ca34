import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { workspaceGuard } from "./workspace-guard.ts";

let sheet: HTMLDialogElement;
let cleanUp: () => void;
const requested: unknown[] = [];

beforeEach(() => {
  requested.length = 0;
  localStorage.clear();
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
  document.body.innerHTML = `<dialog data-workspace="a" data-name="Acme"><b data-other></b><p data-wrong hidden></p>
    <form action="/switch/"><input name="workspace" value="a"><button>Go on</button></form></dialog>`;
  sheet = document.querySelector("dialog")!;
  cleanUp = workspaceGuard(sheet);
});
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

const ACME = '["a","Acme"]';
const OTHER = '["b","Other"]';

function switchInAnotherTab(value: string): void {
  localStorage.setItem("workspace", value);
  window.dispatchEvent(new StorageEvent("storage", { key: "workspace", newValue: value }));
}

test("a page stores its workspace and is blocked when another tab switches", () => {
  expect(localStorage.getItem("workspace")).toBe(ACME);
  switchInAnotherTab(ACME);
  expect(sheet.open).toBe(false);

  switchInAnotherTab(OTHER);
  expect(sheet.open).toBe(true);
  expect(document.querySelector("[data-other]")!.textContent).toBe("Other");
  const cancel = new Event("cancel", { cancelable: true });
  sheet.dispatchEvent(cancel);
  expect(cancel.defaultPrevented).toBe(true);

  switchInAnotherTab(ACME);
  expect(sheet.open).toBe(false);
});

test("continuing here switches back and notifies the other tabs", async () => {
  vi.stubGlobal("fetch", async (url: string, { body }: { body: FormData }) => {
    requested.push([new URL(url).pathname, body.get("workspace")]);
    return new Response("");
  });
  switchInAnotherTab(OTHER);
  document.querySelector<HTMLElement>("button")!.click();

  await vi.waitFor(() => expect(sheet.open).toBe(false));
  expect(requested).toEqual([["/switch/", "a"]]);
  expect(localStorage.getItem("workspace")).toBe(ACME);
});

test("an unreachable server is reported until the next attempt", async () => {
  const wrong = document.querySelector<HTMLElement>("[data-wrong]")!;
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  switchInAnotherTab(OTHER);
  document.querySelector<HTMLElement>("button")!.click();
  await vi.waitFor(() => expect(wrong.hidden).toBe(false));
  expect(wrong.textContent).toContain("Can't reach the server");

  vi.stubGlobal("fetch", async () => new Response(""));
  document.querySelector<HTMLElement>("button")!.click();
  await vi.waitFor(() => expect(sheet.open).toBe(false));
  expect(wrong.hidden).toBe(true);
});

test("a failed switch is reported, and the page stays blocked", async () => {
  vi.stubGlobal("fetch", async () => new Response("", { status: 404 }));
  switchInAnotherTab(OTHER);
  document.querySelector<HTMLElement>("button")!.click();

  await vi.waitFor(() => expect(document.querySelector("[data-wrong]")!.textContent).toContain("404"));
  expect(sheet.open).toBe(true);
  expect(localStorage.getItem("workspace")).toBe(OTHER);
});

test("a page restored from the browser's history checks again", () => {
  localStorage.setItem("workspace", OTHER);
  window.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));

  expect(sheet.open).toBe(true);
});
