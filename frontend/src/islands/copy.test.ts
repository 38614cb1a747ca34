import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { copy } from "./copy.ts";

let cleanUp = (): void => undefined;
const written: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  written.length = 0;
  document.body.innerHTML = `<code id="key"> sy_secret
    </code><button data-from="key"><span aria-live="polite">Copy</span></button>`;
});
afterEach(() => {
  cleanUp();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function clipboard(writeText: (text: string) => Promise<void>): void {
  vi.stubGlobal("navigator", { clipboard: { writeText } });
}

async function press(): Promise<HTMLElement> {
  const button = document.querySelector("button")!;
  cleanUp = copy(button);
  button.click();
  await vi.advanceTimersByTimeAsync(0);
  return button;
}

test("the text is copied without surrounding space", async () => {
  clipboard(async (text) => void written.push(text));
  await press();

  expect(written).toEqual(["sy_secret"]);
});

test("the button confirms the copy and then shows its label again", async () => {
  clipboard(async () => undefined);
  const button = await press();

  expect(button.textContent).toBe("Copied");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(button.textContent).toBe("Copy");
});

test("without a clipboard the text is selected, and the button says what to press", async () => {
  clipboard(() => Promise.reject(new Error("forbidden")));
  const button = await press();

  expect(button.textContent).toBe("Press Ctrl+C");
  expect(window.getSelection()?.toString().trim()).toBe("sy_secret");
});

test("a button without a source is an error", () => {
  document.body.innerHTML = `<button></button>`;

  expect(() => copy(document.querySelector("button")!)).toThrow("data-from");
});
