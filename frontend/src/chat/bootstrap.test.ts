import { expect, test } from "vitest";
import { BOOTSTRAP } from "./samples/bootstrap.ts";
import { answer, delta, end, message, start, use } from "./samples/frames.ts";
import { type Bootstrap, readBootstrap, pageBefore, reduce, visibleItems, stateOf, withEarlierFrames } from "./transcript.ts";

function bootstrap(changed: Partial<Bootstrap>): Bootstrap {
  return { ...BOOTSTRAP, ...changed };
}

const keys = (state: Parameters<typeof visibleItems>[0]): string[] => visibleItems(state).map((item) => item.key);

test("the page's own frames are the beginning, the draft among them", () => {
  const frames = [message(1, "hi"), start(2), delta("e3", 0, "Half")];
  const state = stateOf(bootstrap({ frames, last_seq: 2, status: "running", tokens: 500 }));

  expect(state).toMatchObject({ seq: 2, status: "running", tokens: 500 });
  expect(keys(state)).toEqual(["e1", "e3"]);
});

test("a window without a change of status takes it from the page", () => {
  const frames = [use(300, "c1"), answer(301, "Going on")];
  const state = stateOf(bootstrap({ frames, first_seq: 300, last_seq: 301, status: "running" }));

  expect(state).toMatchObject({ seq: 301, status: "running", lacks: false });
});

test("what waits is told by the page's queue", () => {
  const frames = [message(1, "one"), start(2), message(3, "two")];
  const queue = [{ run_id: "run-2", text: "two", message_seqs: [3] }];
  const state = stateOf(bootstrap({ frames, last_seq: 3, queue }));

  expect(keys(state)).toEqual(["e1"]);
  expect(state.waiting).toMatchObject([{ runId: "run-2", receipt: "queued" }]);
});

test("a longer past goes before what is known, and keeps what is not in the log", () => {
  const recent = [answer(3, "Three"), message(4, "more"), start(5, "run-2")];
  let state = stateOf(bootstrap({ frames: recent, first_seq: 3, last_seq: 5, status: "running" }));
  state = reduce(state, { type: "frame", frame: delta("e6", 0, "Dra", "run-2") });
  const past = [message(1, "first", { processed_at: "x", processed_run_id: "run-1" }), start(2)];
  const longer = withEarlierFrames(state, [...past, ...recent], 1);

  expect(keys(longer)).toEqual(["e1", "e3", "e4", "e6"]);
  expect(longer).toMatchObject({ seq: 5, status: "running" });
});

test("a call that began before the page gets its arguments with the past", () => {
  const frames = [end(3)];
  const state = stateOf(bootstrap({ frames, first_seq: 3, last_seq: 3 }));
  const longer = withEarlierFrames(state, [use(2, "c1", "allow", { path: "a" }), ...frames], 2);

  expect(visibleItems(longer)[0]).toMatchObject({ key: "c1", input: { path: "a" } });
});

test.each([
  [401, "after=200&limit=200", 201],
  [201, "after=0&limit=200", 1],
  [51, "after=0&limit=50", 1],
])("before seq %i lies the page %s", (seq, query, firstSeq) => {
  expect(pageBefore("/api/", seq)).toEqual({ path: `/api/events/?${query}&authors=1`, firstSeq });
});

test("a page without its bootstrap says so", () => {
  expect(() => readBootstrap(document)).toThrow("#chat-opening");
  document.body.innerHTML = `<script type="application/json" id="chat-opening">{"title":"x"}</script>`;
  expect(readBootstrap(document).title).toBe("x");
});
