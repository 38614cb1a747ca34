import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { refresher, type Refresher } from "./pages.ts";

let refreshing: Refresher;
let waiting: ((answer: Response) => void)[];
let shown: string[];

beforeEach(() => {
  vi.useFakeTimers();
  waiting = [];
  shown = [];
  vi.stubGlobal("fetch", () => new Promise<Response>((done) => waiting.push(done)));
  refreshing = refresher(
    () => "/page/",
    (page) => shown.push(page),
  );
});
afterEach(() => {
  refreshing.stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function answer(body: string, status = 200): Promise<void> {
  waiting.shift()?.(new Response(body, { status }));
  await vi.advanceTimersByTimeAsync(0);
}

test("simultaneous requests to refresh cause one fetch", async () => {
  refreshing.soon();
  refreshing.soon();
  await vi.runOnlyPendingTimersAsync();

  expect(waiting).toHaveLength(1);
});

test("requests during a fetch cause one more fetch after it", async () => {
  void refreshing.now();
  void refreshing.now();
  void refreshing.now();
  expect(waiting).toHaveLength(1);
  await answer("old");
  await vi.runOnlyPendingTimersAsync();
  expect(waiting).toHaveLength(1);
  await answer("new");
  await vi.runOnlyPendingTimersAsync();

  expect(shown).toEqual(["old", "new"]);
  expect(waiting).toHaveLength(0);
});

test("a server error is retried, a refusal is not", async () => {
  void refreshing.now();
  await answer("", 503);
  await vi.runAllTimersAsync();
  expect(waiting).toHaveLength(1);
  await answer("", 403);
  await vi.runAllTimersAsync();

  expect(waiting).toHaveLength(0);
  expect(shown).toEqual([]);
});

test("nothing is shown or fetched after stopping", async () => {
  void refreshing.now();
  void refreshing.now();
  refreshing.stop();
  await answer("late");
  refreshing.soon();
  await vi.runAllTimersAsync();

  expect(shown).toEqual([]);
  expect(waiting).toHaveLength(0);
});
