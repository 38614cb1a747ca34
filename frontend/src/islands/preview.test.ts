import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { preview } from "./preview.ts";

let cleanUp = (): void => undefined;
const asked: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  asked.length = 0;
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(url);
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

test("what the server makes of the form is shown, and the token stays here", async () => {
  await vi.advanceTimersByTimeAsync(300);

  expect(document.querySelector("[data-preview]")!.innerHTML).toBe("<p>Every hour</p>");
  expect(asked).toHaveLength(1);
  expect(asked[0]).toContain("/preview/?every=1&timezone=");
  expect(asked[0]).not.toContain("secret");
});

test("typing asks once when it pauses", async () => {
  for (let key = 0; key < 5; key += 1) form().dispatchEvent(new Event("input"));
  await vi.advanceTimersByTimeAsync(300);

  expect(asked).toHaveLength(1);
});

test("a new form begins with the viewer's time zone", () => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

  expect(form().querySelector("select")!.value).toBe(zone);
});

test("the button for pages without a script is hidden", () => {
  expect(document.querySelector<HTMLElement>("[data-fallback]")!.hidden).toBe(true);
});
