import { beforeEach, expect, test, vi } from "vitest";
import type { Frame } from "./frames.ts";
import { LineList } from "./renderer.ts";
import { answer, delta, end, message, start } from "./samples/frames.ts";
import { sampleHost } from "./samples/host.ts";
import { begin, type State } from "./state.ts";
import { reduce, visibleItems } from "./transcript.ts";

let state: State;
let flow: LineList;

beforeEach(() => {
  document.body.innerHTML = "<ol></ol>";
  state = begin();
  flow = new LineList($("ol"), sampleHost());
});

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

function next(...frames: Frame[]): void {
  state = frames.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
  flow.draw(visibleItems(state));
}

test("the element of a draft becomes that of the stored answer", () => {
  next(message(1, "hi"), start(2), delta("e3", 0, "Hel"));
  const line = $(".is-agent");
  expect(line.hasAttribute("data-streaming")).toBe(true);
  next(answer(3, "Hello"));

  expect($(".is-agent")).toBe(line);
  expect(line.hasAttribute("data-streaming")).toBe(false);
  expect(document.querySelectorAll(".is-agent")).toHaveLength(1);
});

test("an answer that ends in a burst is drawn over several frames", async () => {
  next(message(1, "hi"), start(2), delta("e3", 0, "Part 0.\n\nPa"));
  const line = $(".is-agent");
  next(answer(3, Array.from({ length: 14 }, (_, n) => `Part ${n}.`).join("\n\n")));
  expect(line.hasAttribute("data-streaming")).toBe(true);
  expect(line.querySelectorAll(".said > p").length).toBeLessThan(14);

  await vi.waitFor(() => expect(line.hasAttribute("data-streaming")).toBe(false));
  expect(line.querySelectorAll(".said > p")).toHaveLength(14);
  expect(line.querySelector(".line-meta button")).not.toBeNull();
});

test("the words of a person stay where they are when what became of them changes", () => {
  next(message(1, "a long text"), start(2));
  const words = $(".bubble").firstChild;
  const before = $(".receipt").textContent;
  next(answer(3, "Hello"), end(4));

  expect($(".receipt").textContent).not.toBe(before);
  expect($(".bubble").firstChild).toBe(words);
});
