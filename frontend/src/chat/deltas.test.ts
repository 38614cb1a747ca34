import { expect, test } from "vitest";
import { addDelta, countPoints, type Draft, firstPoints } from "./deltas.ts";

function put(draft: Draft | null, offset: number, content: string, eventId = "a"): Draft {
  return addDelta(draft, { eventId, runId: "r", offset, content });
}

test("deltas that follow each other make the text", () => {
  const draft = put(put(null, 0, "Hello"), 5, ", world");

  expect(draft.text).toBe("Hello, world");
  expect(draft.points).toBe(12);
  expect(draft.gap).toBe(false);
});

test("an emoji counts as one, as the server counts it", () => {
  const draft = put(put(put(null, 0, "a🚂"), 2, "b👩‍🚀"), 6, "c");

  expect(draft.text).toBe("a🚂b👩‍🚀c");
  expect(draft.points).toBe(7);
  expect(draft.gap).toBe(false);
});

test("a repeated delta changes nothing, also across an emoji", () => {
  const draft = put(null, 0, "🚂🚃🚃 departs");

  expect(put(draft, 1, "🚃🚃").text).toBe("🚂🚃🚃 departs");
  expect(put(draft, 0, "🚂🚃🚃 departs").text).toBe("🚂🚃🚃 departs");
});

test("an overlap that goes further appends only what is new", () => {
  const draft = put(put(null, 0, "ab🚂d"), 2, "🚂d and on");

  expect(draft.text).toBe("ab🚂d and on");
  expect(draft.points).toBe(11);
});

test("an overlap that says something else is the newer word", () => {
  expect(put(put(null, 0, "It is red"), 6, "blue").text).toBe("It is blue");
});

test("a gap shows nothing of what comes after it", () => {
  const draft = put(put(null, 0, "Hello"), 9, "rld");

  expect(draft).toMatchObject({ text: "Hello", points: 5, gap: true });
  expect(put(draft, 12, "!")).toMatchObject({ text: "Hello", gap: true });
});

test("a replay from the beginning closes the gap", () => {
  const draft = put(put(null, 0, "Hello"), 9, "rld");

  expect(put(draft, 0, "Hello, world")).toMatchObject({ text: "Hello, world", gap: false });
});

test("the middle of an unknown answer is a gap from its first delta on", () => {
  expect(put(null, 4, "rest")).toMatchObject({ text: "", gap: true });
});

test("a draft of another event replaces an abandoned one", () => {
  const draft = put(put(null, 0, "First try"), 0, "Second", "b");

  expect(draft).toMatchObject({ eventId: "b", text: "Second", points: 6 });
});

test("points are cut between characters, never inside one", () => {
  expect(firstPoints("a🚂b", 2)).toBe("a🚂");
  expect(firstPoints("a🚂b", 9)).toBe("a🚂b");
  expect(firstPoints("abc", 0)).toBe("");
  expect(countPoints("👩‍🚀")).toBe(3);
});

test("any cutting and repeating of a text gives the text", () => {
  const text = "Zug 🚂 nach Köln, 終点 👩‍🚀 ready";
  const points = [...text];
  let seed = 7;
  const chance = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let round = 0; round < 200; round += 1) {
    let draft: Draft | null = null;
    let at = 0;
    while (at < points.length) {
      const from = Math.max(0, at - chance(4));
      const to = Math.min(points.length, at + 1 + chance(6));
      draft = put(draft, from, points.slice(from, to).join(""));
      at = Math.max(at, to);
    }
    expect(draft?.text).toBe(text);
  }
});
