import { expect, test } from "vitest";
import type { Frame } from "./frames.ts";
import { type OutgoingMessage, placesOf, type QueueEntry } from "./messages.ts";
import { answer, end, event, message, start } from "./samples/frames.ts";
import { begin, type State } from "./state.ts";
import { reduce, visibleItems, waits } from "./transcript.ts";

function after(frames: Frame[], state: State = begin()): State {
  return frames.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
}

function queue(state: State, entries: [runId: string, ...seqs: number[]][]): State {
  const listed: QueueEntry[] = entries.map(([run_id, ...message_seqs]) => {
    return { run_id, text: "", message_seqs };
  });
  return reduce(state, { type: "queue", entries: listed, asOf: state.seq });
}

function letter(id: string, text: string, onBusy: OutgoingMessage["onBusy"] = "followup"): OutgoingMessage {
  return { id, text, onBusy,
    files: [], at: "", state: "sending", reason: "", seq: null, found: false };
}

const people = (state: State): string[] =>
  visibleItems(state).flatMap((item) => (item.kind === "user" ? [`${item.text}: ${item.receipt}`] : []));
const waiting = (state: State): string[] => placesOf(state).map((place) => place.text);

const busy = after([message(1, "first"), start(2)]);

test("a message to an idle session is in the conversation at once, then read, then answered", () => {
  const sent = after([message(1, "first")]);
  expect(people(sent)).toEqual(["first: sent"]);
  const read = after([start(2)], sent);
  expect(people(read)).toEqual(["first: taken"]);
  expect(people(after([answer(3, "Hi."), end(4)], read))).toEqual(["first: answered"]);
});

test("a message to a busy session waits, and stands where it is answered", () => {
  const queued = queue(after([message(3, "second")], busy), [["run-2", 3]]);
  expect(people(queued)).toEqual(["first: taken"]);
  expect(placesOf(queued)).toEqual([{ key: "run-2", runId: "run-2", text: "second", seqs: [3] }]);

  const taken = after([answer(4, "One."), end(5), start(6, "run-2")], queued);
  expect(waiting(taken)).toEqual([]);
  expect(visibleItems(taken).map((item) => item.order)).toEqual([1, 4, 6]);
  expect(people(taken)).toEqual(["first: answered", "second: taken"]);
});

test("two that come before anything runs are not read together", () => {
  const state = after([message(1, "first"), message(2, "second"), start(3)]);

  expect(people(state)).toEqual(["first: taken"]);
  expect(waiting(state)).toEqual(["second"]);
});

test("without word from the server the first that waits is the next", () => {
  const state = after([message(3, "second"), message(4, "third"), end(5), start(6, "run-2")], busy);

  expect(people(state)).toEqual(["first: answered", "second: taken"]);
  expect(waiting(state)).toEqual(["third"]);
});

test("the server's order counts", () => {
  const both = after([message(3, "second"), message(4, "third")], busy);
  const moved = queue(both, [
    ["run-3", 4],
    ["run-2", 3],
  ]);

  expect(waiting(moved)).toEqual(["third", "second"]);
  expect(people(after([end(5), start(6, "run-3")], moved))).toEqual([
    "first: answered",
    "third: taken",
  ]);
});

test("collected messages are one place", () => {
  const state = queue(after([message(3, "second"), message(4, "third")], busy), [["run-2", 3, 4]]);

  expect(placesOf(state)).toEqual([
    { key: "run-2", runId: "run-2", text: "second\n\nthird", seqs: [3, 4] },
  ]);
  expect(people(after([end(5), start(6, "run-2")], state)).slice(1)).toEqual([
    "second: taken",
    "third: taken",
  ]);
});

test("a waiting message can be reworded and taken back, by whichever page", () => {
  const queued = queue(after([message(3, "second")], busy), [["run-2", 3]]);
  const edited = after([event(4, "user.message_edited", { seq: 3, text: "better" })], queued);
  expect(waiting(edited)).toEqual(["better"]);

  expect(waiting(after([event(5, "user.message_withdrawn", { seq: 3 })], edited))).toEqual([]);
});

test("a message in no place of the queue has joined the running answer", () => {
  const state = queue(after([message(3, "also this")], busy), []);

  expect(people(state)).toEqual(["first: taken", "also this: steered"]);
});

test("a message that joined an answer is not lost when the answer ends before the queue is asked", () => {
  const joined = after([message(3, "also this"), answer(4, "Both."), end(5)], busy);

  expect(people(queue(joined, []))).toEqual(["first: answered", "also this: answered"]);
});

test("a replay says which run took a message", () => {
  const state = after([message(3, "also this", { processed_at: "x", processed_run_id: "run-1" })], busy);

  expect(people(state)).toEqual(["first: taken", "also this: steered"]);
});

test("an old word about the queue says nothing of a newer message", () => {
  const early = busy;
  const later = after([message(3, "second")], early);
  const state = reduce(later, { type: "queue", entries: [], asOf: early.seq });

  expect(waiting(state)).toEqual(["second"]);
});

test("the past knows which run took a message", () => {
  const state = after([
    message(1, "first", { processed_at: "x", processed_run_id: "run-1" }),
    message(2, "second", { processed_at: "x", processed_run_id: "run-2" }),
    start(3),
    message(4, "joined", { processed_at: "x", processed_run_id: "run-1" }),
    answer(5, "One."),
    end(6),
    start(7, "run-2"),
    answer(8, "Two."),
    end(9, "run-2"),
  ]);

  expect(visibleItems(state).map((item) => ("text" in item ? item.text : ""))).toEqual([
    "first",
    "joined",
    "One.",
    "second",
    "Two.",
  ]);
});

test("an imported message was read by nobody here and stands where it is", () => {
  expect(people(after([message(1, "old", { processed_at: "x" })]))).toEqual(["old: answered"]);
});

test("a letter is shown while it is on its way, and once", () => {
  const sending = reduce(begin(), { type: "sending", letter: letter("a", "hello") });
  expect(people(sending)).toEqual(["hello: sending"]);

  const first = after([message(1, "hello")], sending);
  expect(people(first)).toEqual(["hello: sent"]);
  const acked = reduce(first, { type: "acked", id: "a", seq: 1, runId: "run-1" });
  expect(acked.outbox).toEqual([]);
  expect(people(acked)).toEqual(["hello: sent"]);
});

test("an acknowledgement may come before the frame", () => {
  const sending = reduce(begin(), { type: "sending", letter: letter("a", "hello") });
  const acked = reduce(sending, { type: "acked", id: "a", seq: 1, runId: "run-1" });
  expect(people(acked)).toEqual(["hello: sending"]);

  const done = after([message(1, "hello")], acked);
  expect(people(done)).toEqual(["hello: sent"]);
  expect(done.outbox).toEqual([]);
});

test("the same words from another page do not swallow a letter", () => {
  const sending = reduce(begin(), { type: "sending", letter: letter("a", "hello") });
  const theirs = after([message(1, "hello")], sending);
  const acked = reduce(theirs, { type: "acked", id: "a", seq: 2, runId: "run-2" });
  const both = after([message(2, "hello")], acked);

  expect(people(both)).toEqual(["hello: sent"]);
  expect(waiting(both)).toEqual(["hello"]);
  expect(both.outbox).toEqual([]);
});

test("a letter to a busy session goes to the queue, one that steers does not", () => {
  const queued = letter("a", "later");
  const steering = letter("b", "now", "steer");
  const state = reduce(reduce(busy, { type: "sending", letter: queued }), {
    type: "sending",
    letter: steering,
  });

  expect([waits(state, queued), waits(state, steering)]).toEqual([true, false]);
  expect(people(state)).toEqual(["first: taken", "now: sending"]);
});

test("an acknowledgement with the running run's id says that the message joined it", () => {
  const sent = after([message(3, "now")], busy);
  const state = reduce(sent, { type: "acked", id: "b", seq: 3, runId: "run-1" });

  expect(people(state)).toEqual(["first: taken", "now: steered"]);
});

test("a refused letter stays with its reason until it is sent again or dropped", () => {
  const sending = reduce(begin(), { type: "sending", letter: letter("a", "hello") });
  const refused = reduce(sending, { type: "refused", id: "a", reason: "The session has ended." });

  expect(visibleItems(refused)[0]).toMatchObject({ receipt: "failed", reason: "The session has ended." });
  expect(visibleItems(reduce(refused, { type: "dropped", id: "a" }))).toEqual([]);
});
