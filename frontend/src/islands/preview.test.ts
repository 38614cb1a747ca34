import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { preview } from "./preview.ts";

let cleanUp = (): void => undefined;
const requested: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  requested.length = 0;
  vi.stubGlobal("fetch", async (url: string) => {
    requested.push(url);
    return { ok: true, text: async () => "<p>Every hour</p>" };
  });
  document.body.innerHTML = `<form data-url="/preview/"><input name="csrfmiddlewaretoken" value="secret">
    <input name="every" value="1"><select name="timezone" data-own-zone><option>Etc/None</option>
    <option>${Intl.DateTimeFormat().resolvedOptions().timeZone}</option></select>
    <div data-preview></div><button data-fallback>Preview</button></form>`;
  cleanUp = preview(document.querySelector("form")!);
});
afterEach(() => {
  cleanUp();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const form = (): HTMLFormElement => document.querySelector("form")!;

test("the server's preview of the form is shown, and the token is not sent", async () => {
  await vi.advanceTimersByTimeAsync(300);

  expect(document.querySelector("[data-preview]")!.innerHTML).toBe("<p>Every hour</p>");
  expect(requested).toHaveLength(1);
  expect(requested[0]).toContain("/preview/?every=1&timezone=");
  expect(requested[0]).not.toContain("secret");
});

test("typing causes one request after a pause", async () => {
  for (let key = 0; key < 5; key += 1) form().dispatchEvent(new Event("input"));
  await vi.advanceTimersByTimeAsync(300);

  expect(requested).toHaveLength(1);
});

test("a new form starts with the viewer's time zone", () => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

  expect(form().querySelector("select")!.value).toBe(zone);
});

test("the button for pages without JavaScript is hidden", () => {
  expect(document.querySelector<HTMLElement>("[data-fallback]")!.hidden).toBe(true);
});
