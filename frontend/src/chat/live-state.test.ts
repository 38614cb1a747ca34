import { expect, test } from "vitest";
import { type Action, initialState, type LiveState, reduce, unshownMessages, waitsInQueue } from "./live-state.ts";
import type { OutgoingMessage } from "./outbox.ts";
import { BOOTSTRAP } from "./samples/bootstrap.ts";
import { answer, delta, end, event, failure, message, output, result, start, thought, use } from "./samples/frames.ts";

const frames = (...all: ReturnType<typeof answer>[]): Action[] => all.map((frame) => ({ type: "frame", frame }));
const after = (...actions: Action[]): LiveState => actions.reduce(reduce, initialState(BOOTSTRAP));
const fetched = (last_seq: number): Action => ({ type: "fetched", conversation: { ...BOOTSTRAP, last_seq } });

const LETTER: OutgoingMessage = {
  ...{ id: "x", text: "hi", files: [], onBusy: "followup", state: "sending" },
  ...{ isQueued: false, reason: "", seq: null, isAcknowledged: false },
};

test("a frame counts once, and one that is missing asks for the socket again", () => {
  const state = after(...frames(message(1, "hi"), message(1, "hi"), start(2)));
  expect(state).toMatchObject({ seq: 2, lacks: false });

  expect(reduce(state, frames(answer(5, "late"))[0]!)).toMatchObject({ seq: 2, lacks: true });
});

test.each([
  ["a start", start(1), "running", "run-1"],
  ["an end", end(1), "idle", null],
  ["an end that waits for a person", end(1, "run-1", "requires_action"), "requires_action", null],
  ["a retry later", event(1, "session.status_changed", { to: "rescheduling" }), "rescheduling", null],
])("%s changes the status", (_name, frame, status, runId) => {
  expect(after(...frames(frame))).toMatchObject({ status, runId });
});

test("a draft grows, ends with its frame and stays until the server's line is there", () => {
  const state = after(...frames(start(1), delta("e2", 0, "Hel"), delta("e2", 3, "lo"), answer(2, "Hello")));
  expect(state.drafts).toMatchObject([{ eventId: "e2", text: "Hello", endsAt: 2 }]);
  expect(reduce(state, fetched(1)).drafts).toHaveLength(1);

  expect(reduce(state, fetched(2)).drafts).toEqual([]);
});

test("late deltas of an answer that is stored change nothing", () => {
  const state = after(...frames(start(1), delta("e2", 0, "Hel"), answer(2, "Hello")));

  expect(reduce(state, frames(delta("e2", 3, "lo"))[0]!)).toBe(state);
});

test("the next answer begins while the last one is not fetched yet", () => {
  const state = after(...frames(start(1), delta("e2", 0, "One"), answer(2, "One"), delta("e4", 0, "Two")));

  expect(state.drafts.map((draft) => draft.text)).toEqual(["One", "Two"]);
});

test("thinking stays beside its answer, and another attempt replaces both", () => {
  const state = after(...frames(start(1), thought("t2", 0, "Hm"), delta("e3", 0, "Hello")));
  expect(state.drafts.map((draft) => [draft.text, draft.isThinking])).toEqual([
    ["Hm", true],
    ["Hello", false],
  ]);

  const again = frames(thought("t4", 0, "Again")).reduce(reduce, state);
  expect(again.drafts.map((draft) => draft.text)).toEqual(["Again"]);
});

test.each([["an error", failure(2)], ["a stop", end(2)]])("%s ends a draft", (_name, frame) => {
  const state = after(...frames(start(1), delta("e9", 0, "Half"), frame));

  expect(reduce(state, fetched(2)).drafts).toEqual([]);
});

test("output of a running call is kept until its result", () => {
  const running = after(...frames(start(1), use(2, "c1"), output("c1", 0, "one\n"), output("c1", 4, "two\n")));
  expect(running.outputs.get("c1")?.text).toBe("one\ntwo\n");

  expect(reduce(running, frames(result(3, "c1"))[0]!).outputs.size).toBe(0);
});

test("a message on its way is shown until the lines have it, whichever way its seq is learned", () => {
  const sending: Action = { type: "sending", message: LETTER };
  const byFrame = after(sending, ...frames(message(1, "hi")));
  expect(unshownMessages(byFrame)).toHaveLength(1);
  expect(unshownMessages(reduce(byFrame, fetched(1)))).toEqual([]);

  const byAck = after(sending, { type: "acknowledged", id: "x", seq: 1 });
  expect(unshownMessages(byAck)).toHaveLength(1);
  expect(reduce(byAck, fetched(1)).outbox).toEqual([]);
  expect(reduce(reduce(byFrame, fetched(1)), { type: "acknowledged", id: "x", seq: 1 }).outbox).toEqual([]);
});

test("the same text sent twice is found twice", () => {
  const second = { ...LETTER, id: "y" };
  const state = after(
    { type: "sending", message: LETTER },
    { type: "sending", message: second },
    ...frames(message(1, "hi"), message(2, "hi")),
  );

  expect(state.outbox.map((one) => one.seq)).toEqual([1, 2]);
});

test("a message joins the queue while the agent works, unless it goes into the answer or failed", () => {
  const sent = (message: OutgoingMessage, ...before: Action[]): OutgoingMessage =>
    after(...before, { type: "sending", message }).outbox.at(-1)!;
  const busy = frames(start(1));

  expect(waitsInQueue(sent(LETTER, ...busy))).toBe(true);
  expect(waitsInQueue(sent({ ...LETTER, onBusy: "steer" }, ...busy))).toBe(false);
  expect(waitsInQueue({ ...sent(LETTER, ...busy), state: "failed" })).toBe(false);
  expect(waitsInQueue(sent(LETTER))).toBe(false);
  expect(waitsInQueue(sent({ ...LETTER, id: "y" }, { type: "sending", message: LETTER }))).toBe(true);
});

test("a message that was sent to an idle agent stays in the transcript when its run starts", () => {
  const state = after({ type: "sending", message: LETTER }, ...frames(message(1, "hi"), start(2)));

  expect(unshownMessages(state).map(waitsInQueue)).toEqual([false]);
});
