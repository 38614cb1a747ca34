import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { lookAt, type Looking } from "./look.ts";

let looking: Looking;
let waiting: ((answer: Response) => void)[];
let shown: string[];

beforeEach(() => {
  vi.useFakeTimers();
  waiting = [];
  shown = [];
  vi.stubGlobal("fetch", () => new Promise<Response>((done) => waiting.push(done)));
  looking = lookAt(
    () => "/page/",
    (page) => shown.push(page),
  );
});
afterEach(() => {
  looking.stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function answer(body: string, status = 200): Promise<void> {
  waiting.shift()?.(new Response(body, { status }));
  await vi.advanceTimersByTimeAsync(0);
}

test("rings that come together are one look", async () => {
  looking.soon();
  looking.soon();
  await vi.runOnlyPendingTimersAsync();

  expect(waiting).toHaveLength(1);
});

test("what rings during a look is one more look after it", async () => {
  void looking.now();
  void looking.now();
  void looking.now();
  expect(waiting).toHaveLength(1);
  await answer("old");
  await vi.runOnlyPendingTimersAsync();
  expect(waiting).toHaveLength(1);
  await answer("new");
  await vi.runOnlyPendingTimersAsync();

  expect(shown).toEqual(["old", "new"]);
  expect(waiting).toHaveLength(0);
});

test("a server that fails is asked again, one that refuses is not", async () => {
  void looking.now();
  await answer("", 503);
  await vi.runAllTimersAsync();
  expect(waiting).toHaveLength(1);
  await answer("", 403);
  await vi.runAllTimersAsync();

  expect(waiting).toHaveLength(0);
  expect(shown).toEqual([]);
});

test("nothing is shown or asked once it stopped", async () => {
  void looking.now();
  void looking.now();
  looking.stop();
  await answer("late");
  looking.soon();
  await vi.runAllTimersAsync();

  expect(shown).toEqual([]);
  expect(waiting).toHaveLength(0);
});
