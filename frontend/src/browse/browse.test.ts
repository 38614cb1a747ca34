import { afterEach, beforeEach, expect, test, vi } from "vitest";
import browse from "./browse.ts";

const ROW = (id: number, inner = ""): string => `<tr data-row data-depth="0"><td>${inner}
  <a href="/s/${id}/" data-open="/s/${id}/preview/" data-export="/s/${id}/export/">Row ${id}</a></td></tr>`;
const FOLD = `<a href="/s/1/tree/" data-fold="/s/1/children/"></a>`;

let cleanUp: () => void;
const requested: string[] = [];

beforeEach(() => {
  requested.length = 0;
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
  vi.stubGlobal("fetch", async (url: string) => {
    requested.push(url);
    const child = `<table><tbody><tr data-row data-depth="1"><td><a href="/s/9/" data-open="/s/9/preview/">Child</a></td></tr></tbody></table>`;
    return new Response(url.includes("children") ? child : `<h2>${url}</h2><button data-close>x</button>`);
  });
  document.body.innerHTML = `<div id="root"><table><tbody>${ROW(1, FOLD)}${ROW(2)}</tbody></table>
    <aside data-pane hidden></aside><p data-said></p></div>`;
  cleanUp = browse(document.getElementById("root")!);
});
afterEach(() => {
  cleanUp();
  vi.unstubAllGlobals();
});

const link = (name: string): HTMLAnchorElement =>
  [...document.querySelectorAll("a")].find((one) => one.textContent === name)!;
const press = (key: string): boolean =>
  document.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
const pane = (): HTMLElement => document.querySelector<HTMLElement>("[data-pane]")!;

test("J and K move through the rows and stop at the ends", () => {
  press("j");
  expect(document.activeElement).toBe(link("Row 1"));
  press("j");
  press("j");
  expect(document.activeElement).toBe(link("Row 2"));
  press("k");
  expect(document.activeElement).toBe(link("Row 1"));
});

test("a row opens in the pane, another replaces it, and Escape closes it and restores the focus", async () => {
  link("Row 1").click();
  await vi.waitFor(() => expect(pane().hidden).toBe(false));
  expect(pane().textContent).toContain("/s/1/preview/");
  link("Row 1").focus();
  press("j");
  await vi.waitFor(() => expect(pane().textContent).toContain("/s/2/preview/"));
  expect(link("Row 2").closest("tr")!.hasAttribute("data-shown")).toBe(true);
  press("Escape");
  expect(pane().hidden).toBe(true);
  expect(document.activeElement).toBe(link("Row 2"));
});

test("a second click on a row and a click with a modifier are left to the browser", async () => {
  link("Row 1").click();
  await vi.waitFor(() => expect(pane().hidden).toBe(false));
  const again = new MouseEvent("click", { bubbles: true, cancelable: true });
  const apart = new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: true });
  const kept: boolean[] = [];
  document.body.addEventListener("click", (event) => {
    kept.push(!event.defaultPrevented);
    event.preventDefault();
  });
  link("Row 1").dispatchEvent(again);
  link("Row 2").dispatchEvent(apart);
  expect(kept).toEqual([true, true]);
});

test("unfolding loads the child rows once and folding removes them", async () => {
  const fold = document.querySelector<HTMLElement>("[data-fold]")!;
  expect(fold.getAttribute("aria-expanded") ?? fold.ariaExpanded).toBe("false");
  fold.click();
  fold.click();
  await vi.waitFor(() => expect(link("Child")).toBeTruthy());
  expect(requested).toEqual(["/s/1/children/?depth=1"]);
  expect(link("Child").closest("tr")!.previousElementSibling).toBe(link("Row 1").closest("tr"));
  fold.click();
  expect(link("Child")).toBeUndefined();
});
