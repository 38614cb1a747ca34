import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Asking, latestQuery } from "./latest-query.ts";

let asking: Asking;
let answers: ((told: string) => void)[];
let shown: string[];

beforeEach(() => {
  vi.useFakeTimers();
  answers = [];
  shown = [];
  asking = latestQuery(
    () => new Promise<string>((resolve) => answers.push(resolve)),
    (told) => shown.push(told),
    100,
  );
});
afterEach(() => vi.useRealTimers());

async function answer(nth: number, told: string): Promise<void> {
  answers[nth]!(told);
  await vi.advanceTimersByTimeAsync(0);
}

test("many changes are one question, once they rest", async () => {
  asking.soon();
  await vi.advanceTimersByTimeAsync(99);
  asking.soon();
  await vi.advanceTimersByTimeAsync(99);
  expect(answers).toHaveLength(0);
  await vi.advanceTimersByTimeAsync(1);

  expect(answers).toHaveLength(1);
});

test("an older answer that comes late does not take the place of a newer one", async () => {
  void asking.now();
  void asking.now();
  await answer(1, "new");
  await answer(0, "old");

  expect(shown).toEqual(["new"]);
});

test("after the stop nothing is asked, and what was asked is not shown", async () => {
  void asking.now();
  asking.soon();
  asking.stop();
  await answer(0, "late");
  await vi.advanceTimersByTimeAsync(1_000);

  expect(answers).toHaveLength(1);
  expect(shown).toEqual([]);
});
