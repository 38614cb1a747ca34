import { afterEach, beforeEach, expect, test, vi } from "vitest";
import replay from "./replay.ts";

let cleanUp: () => void;
const requested: string[] = [];

beforeEach(() => {
  requested.length = 0;
  vi.useFakeTimers();
  vi.stubGlobal("fetch", async (url: string) => {
    requested.push(url);
    return new Response(`<p class="moment">${url}</p>`);
  });
  document.body.innerHTML = `<div id="root" data-url="/r/"><a href="?at=1" data-step="-1">b</a>
    <button data-play><i data-when="paused"></i><i data-when="playing" hidden></i></button>
    <a href="?at=2" data-step="1">f</a><input type="range" min="1" max="3" value="1" data-slider>
    <output data-at></output><div data-moment></div><input type="hidden" value="1" data-fork></div>`;
  cleanUp = replay(document.getElementById("root")!);
});
afterEach(() => {
  cleanUp();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const shown = (): string => document.querySelector("[data-moment]")!.textContent ?? "";
const play = (): HTMLButtonElement => document.querySelector("[data-play]")!;
const press = (key: string): boolean =>
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

test("arrow keys step, stop at the ends, and update the fork", async () => {
  press("ArrowRight");
  await vi.waitFor(() => expect(shown()).toBe("/r/?at=2"));
  expect(document.querySelector<HTMLInputElement>("[data-fork]")!.value).toBe("2");
  expect(document.querySelector("[data-at]")!.textContent).toBe("2 of 3");
  press("ArrowLeft");
  press("ArrowLeft");
  await vi.waitFor(() => expect(shown()).toBe("/r/?at=1"));
});

test("the slider shows the event that it points at", async () => {
  const slider = document.querySelector<HTMLInputElement>("[data-slider]")!;
  slider.value = "3";
  slider.dispatchEvent(new Event("input"));
  await vi.waitFor(() => expect(shown()).toBe("/r/?at=3"));
});

test("playing advances by itself, ends at the last event, and can be paused", async () => {
  play().click();
  expect(play().ariaLabel).toBe("Pause");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(requested).toEqual(["/r/?at=2", "/r/?at=3"]);
  expect(play().ariaLabel).toBe("Play");
  press("p");
  await vi.advanceTimersByTimeAsync(10);
  expect(requested.at(-1)).toBe("/r/?at=1");
  press("p");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(requested.length).toBe(3);
});
