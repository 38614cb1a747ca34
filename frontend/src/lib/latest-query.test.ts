import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Asking, latestQuery } from "./latest-query.ts";

let query: Asking;
let answers: ((text: string) => void)[];
let shown: string[];

beforeEach(() => {
  vi.useFakeTimers();
  answers = [];
  shown = [];
  query = latestQuery(
    () => new Promise<string>((resolve) => answers.push(resolve)),
    (text) => shown.push(text),
    100,
  );
});
afterEach(() => vi.useRealTimers());

async function answer(nth: number, text: string): Promise<void> {
  answers[nth]!(text);
  await vi.advanceTimersByTimeAsync(0);
}

test("many changes cause one query after a pause", async () => {
  query.soon();
  await vi.advanceTimersByTimeAsync(99);
  query.soon();
  await vi.advanceTimersByTimeAsync(99);
  expect(answers).toHaveLength(0);
  await vi.advanceTimersByTimeAsync(1);

  expect(answers).toHaveLength(1);
});

test("a late answer to an older query does not replace a newer one", async () => {
  void query.now();
  void query.now();
  await answer(1, "new");
  await answer(0, "old");

  expect(shown).toEqual(["new"]);
});

test("after stopping, nothing is queried and pending answers are not shown", async () => {
  void query.now();
  query.soon();
  query.stop();
  await answer(0, "late");
  await vi.advanceTimersByTimeAsync(1_000);

  expect(answers).toHaveLength(1);
  expect(shown).toEqual([]);
});
