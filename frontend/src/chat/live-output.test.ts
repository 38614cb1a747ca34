import { expect, test } from "vitest";
import { addOutput, liveText } from "./deltas.ts";

test("pieces that follow each other are one text, counted in code points", () => {
  const one = addOutput(null, 0, "🚂\n");
  const two = addOutput(one, 2, "next\n");

  expect(two).toEqual({ start: 0, text: "🚂\nnext\n", points: 7 });
  expect(liveText(two)).toBe("🚂\nnext\n");
});

test("a repeated piece changes nothing, and a longer tail is taken", () => {
  const known = addOutput(addOutput(null, 0, "one\n"), 4, "two\n");

  expect(addOutput(known, 4, "two\n")).toEqual(known);
  expect(addOutput(known, 0, "one\ntwo\nthree\n").text).toBe("one\ntwo\nthree\n");
});

test("after a gap only what is known for sure is shown, with a mark", () => {
  const known = addOutput(addOutput(null, 0, "one\n"), 100, "later\n");

  expect(known).toEqual({ start: 100, text: "later\n", points: 6 });
  expect(liveText(known)).toBe("…\nlater\n");
});

test("only the newest part is kept, and no character is cut in two", () => {
  let live = addOutput(null, 0, "");
  for (let n = 0; n < 50; n += 1) live = addOutput(live, live.start + live.points, "a" + "🚃".repeat(999));

  expect(live.text.length).toBeLessThanOrEqual(32_000);
  expect(live.start + live.points).toBe(50_000);
  expect(() => encodeURIComponent(live.text)).not.toThrow();
});
