import { beforeEach, expect, test, vi } from "vitest";
import type { Frame } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import { LineList } from "./renderer.ts";
import { answer, end, failure, message, result, start, use } from "./samples/frames.ts";
import { sampleHost } from "./samples/host.ts";
import { begin, type State } from "./state.ts";
import { reduce, visibleItems } from "./transcript.ts";

let host: ChatHost;
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

beforeEach(() => {
  document.body.innerHTML = "<ol></ol>";
  host = sampleHost();
});

function after(frames: Frame[], state: State = begin()): State {
  return frames.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
}

function calls(count: number): Frame[] {
  const made = [message(1, "work"), start(2)];
  for (let n = 0; n < count; n += 1) made.push(use(3 + 2 * n, `c${n}`), result(4 + 2 * n, `c${n}`));
  return made;
}

test("calls in a row fold when the agent has gone on, and open to each", async () => {
  let state = after(calls(5));
  const flow = new LineList($("ol"), host);
  flow.draw(visibleItems(state));
  expect(document.querySelectorAll(".is-call")).toHaveLength(5);
  state = after([answer(13, "Done.")], state);
  flow.draw(visibleItems(state));
  expect(document.querySelectorAll(".is-call")).toHaveLength(1);
  expect($(".call-row .call-title").textContent).toBe("5 steps · 1.7 s");

  $<HTMLDetailsElement>(".call-row").open = true;
  await vi.waitFor(() => expect(document.querySelectorAll(".call-row .is-call")).toHaveLength(5));
});

test("a few calls, and one that somebody must settle, stay in sight", () => {
  expect(visibleItems(after([...calls(2), answer(7, "Done.")])).map((item) => item.kind)).toEqual([
    "user", "call", "call", "agent",
  ]);
  const unknown = result(8, "c2", { tool_state: "unknown" });
  const frames = [...calls(2), use(7, "c2"), unknown, answer(9, "Hm."), end(10)];
  expect(visibleItems(after(frames)).map((item) => item.kind)).not.toContain("steps");
});

test("a call of unknown outcome asks what became of it", async () => {
  const unknown = result(4, "c1", { tool_state: "unknown", error: "The worker was lost." });
  const state = after([message(1, "hi"), start(2), use(3, "c1"), unknown, end(5)]);
  new LineList($("ol"), host).draw(visibleItems(state));
  await vi.waitFor(() => expect($(".call-settle")).not.toBeNull());
  const press = (words: string): void =>
    [...document.querySelectorAll<HTMLButtonElement>(".call-settle button")]
      .find((one) => one.textContent === words)!
      .click();
  press("It had no effect");
  await vi.waitFor(() => expect(host.verify).toHaveBeenCalledWith("c1", false));
});

test("an error has the button that helps, and Retry until something newer runs", () => {
  const spent = { ...failure(3, false) };
  spent.metadata = { ...spent.metadata, code: "out_of_credits" };
  let state = after([message(1, "hi"), start(2), spent, end(4, "run-1", "budget_reached")]);
  const flow = new LineList($("ol"), host);
  flow.draw(visibleItems(state));
  expect($(".is-trouble a").getAttribute("href")).toBe("/settings/budgets/");
  expect($(".is-trouble button").textContent).toBe("Retry");

  state = after([start(5, "run-2", "retry")], state);
  flow.draw(visibleItems(state));
  expect(document.querySelector(".is-trouble button")).toBeNull();
});

test("ten thousand events are taken in without looking through all calls at each", () => {
  const frames: Frame[] = [];
  for (let n = 0; n < 2_500; n += 1) {
    const at = 4 * n;
    frames.push(message(at + 1, "hi", { processed_at: "x" }), use(at + 2, `c${n}`));
    frames.push(result(at + 3, `c${n}`), answer(at + 4, "ok"));
  }
  const state = after(frames);

  expect(state.seq).toBe(10_000);
  expect(state.items).toHaveLength(7_500);
});
