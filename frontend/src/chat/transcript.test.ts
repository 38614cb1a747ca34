import { expect, test } from "vitest";
import type { Frame } from "./frames.ts";
import { thousands } from "./labels.ts";
import {
  answer,
  confirmation,
  delta,
  end,
  event,
  failure,
  message,
  result,
  start,
  use,
} from "./samples/frames.ts";
import { begin, type Item, type State } from "./state.ts";
import { reduce, visibleItems } from "./transcript.ts";

function after(frames: Frame[], state: State = begin()): State {
  return frames.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
}

const texts = (state: State): string[] => visibleItems(state).map(wordsOf);

function wordsOf(item: Item): string {
  switch (item.kind) {
    case "user":
      return `> ${item.text}`;
    case "agent":
      return `${item.text}${item.streaming ? "…" : ""}`;
    case "call":
      return `[${item.name} ${item.state}]`;
    case "error":
      return `! ${item.message}${item.retryable ? " (retry)" : ""}`;
    case "compaction":
    case "note":
      return `- ${item.text}`;
    default:
      return item.kind;
  }
}

test("a turn is told in its order", () => {
  const state = after([
    message(1, "hello"),
    start(2),
    answer(3, "Refresher."),
    use(4, "c1"),
    result(5, "c1"),
    answer(6, "Done."),
    end(7),
  ]);

  expect(texts(state)).toEqual(["> hello", "Refresher.", "[exec completed]", "Done."]);
  expect(state).toMatchObject({ seq: 7, status: "idle", runId: null, lacks: false });
});

test("a frame that comes again is passed over", () => {
  const turn = [message(1, "hello"), start(2), answer(3, "Hi."), end(4)];
  const state = after(turn);

  expect(after(turn, state)).toBe(state);
});

test("a missing frame stops the telling until a replay brings it", () => {
  const state = after([message(1, "hello"), answer(3, "Hi.")]);

  expect(state).toMatchObject({ seq: 1, lacks: true });
  const replayed = after([start(2), answer(3, "Hi.")], reduce(state, { type: "replaying" }));
  expect(replayed).toMatchObject({ seq: 3, lacks: false });
  expect(texts(replayed)).toEqual(["> hello", "Hi."]);
});

test("deltas grow a draft, and the stored event takes its place under the same key", () => {
  const begun = after([message(1, "hello"), start(2), delta("e3", 0, "Hel"), delta("e3", 3, "lo 🚂")]);

  expect(texts(begun)).toEqual(["> hello", "Hello 🚂…"]);
  const draft = visibleItems(begun).at(-1)!;
  const done = after([answer(3, "Hello 🚂!")], begun);
  expect(texts(done)).toEqual(["> hello", "Hello 🚂!"]);
  expect(visibleItems(done).at(-1)!.key).toBe(draft.key);
  expect(done.draft).toBeNull();
});

test("a late delta of a stored answer changes nothing", () => {
  const state = after([message(1, "hello"), start(2), answer(3, "Hi.")]);

  expect(after([delta("e3", 0, "Hi"), delta("e3", 9, "x")], state)).toBe(state);
});

test("a gap in the deltas asks for a replay and waits for it", () => {
  const state = after([message(1, "hi"), start(2), delta("e3", 0, "One"), delta("e3", 9, "three")]);

  expect(state.lacks).toBe(true);
  expect(texts(state)).toEqual(["> hi", "One…"]);
  const replayed = after([delta("e3", 0, "One, two, three")], reduce(state, { type: "replaying" }));
  expect(replayed.lacks).toBe(false);
  expect(texts(replayed)).toEqual(["> hi", "One, two, three…"]);
});

test("the draft of a second try replaces that of an abandoned one", () => {
  const state = after([message(1, "hi"), start(2), delta("x", 0, "Once"), delta("y", 0, "Again")]);

  expect(texts(state)).toEqual(["> hi", "Again…"]);
});

test.each([
  ["a new attempt", start(3, "run-1", "recovered")],
  ["the end of the run", end(3)],
  ["an error", failure(3)],
  ["a lost worker", event(3, "session.status_changed", { from: "running", to: "rescheduling" })],
])("%s ends a draft", (_name, frame) => {
  const state = after([message(1, "hi"), start(2), delta("x", 0, "Half an answ"), frame]);

  expect(texts(state).join()).not.toContain("Half");
});

test("an approval waits, is answered and shrinks to a call", () => {
  const asked = [message(1, "run ls"), start(2), use(3, "c1", "ask", { command: "ls" })];
  const parked = after([...asked, end(4, "run-1", "requires_action")]);
  expect(texts(parked)).toEqual(["> run ls", "[exec awaiting_approval]"]);
  expect(parked.status).toBe("requires_action");

  const allowed = after([confirmation(5, "c1", "allow")], parked);
  expect(texts(allowed).at(-1)).toBe("[exec pending]");
  const going = after([start(6, "run-2", "resumed")], allowed);
  expect(texts(going).at(-1)).toBe("[exec running]");
  expect(texts(after([result(7, "c1")], going)).at(-1)).toBe("[exec completed]");
});

test("a refusal by a person is a denial at once", () => {
  const asked = [message(1, "run ls"), start(2), use(3, "c1", "ask"), end(4, "run-1", "requires_action")];
  const state = after([...asked, confirmation(5, "c1", "deny")]);

  expect(texts(state).at(-1)).toBe("[exec denied]");
});

test("a stop is noted where it happened, with what was said so far", () => {
  const state = after([
    message(1, "hi"),
    start(2),
    delta("e4", 0, "Half"),
    event(3, "user.interrupt", { note: "too long" }),
    answer(4, "Half", { interrupted: true }),
    end(5, "run-1", "interrupted"),
  ]);

  expect(texts(state)).toEqual(["> hi", "Half", "- Stopped: too long"]);
});

test("a stop of nothing leaves no trace in the conversation", () => {
  const state = after([event(1, "user.interrupt", { note: "" }), message(2, "hi")]);

  expect(texts(state)).toEqual(["> hi"]);
});

test("an error can be tried again until something newer runs", () => {
  const failed = after([message(1, "hi"), start(2), failure(3), end(4, "run-1", "retries_exhausted")]);
  expect(texts(failed).at(-1)).toBe("! The model refused. (retry)");

  expect(texts(after([start(5, "run-1", "recovered")], failed))).toContain("! The model refused.");
  const hopeless = after([message(1, "hi"), start(2), failure(3, false)]);
  expect(texts(hopeless).at(-1)).toBe("! The model refused.");
});

test("compaction, resources, verdicts and terminals are notes, a sub-agent is a card", () => {
  const state = after([
    event(1, "session.context_compacted", { tokens_before: 61_000, tokens_after: 9_200 }),
    event(2, "session.child_created", { child_session_id: "kid" }),
    event(3, "session.resource_attached", { mount_path: "/docs" }),
    event(4, "session.something_new", {}),
    event(5, "session.outcome_judged", { status: "met" }),
    event(6, "session.outcome_judged", {
      status: "not_met",
      returned: true,
      returns: 1,
      max_returns: 2,
      feedback: "Say\nmore.",
    }),
    event(7, "session.outcome_judged", { status: "not_met", returned: false, feedback: "" }),
    event(8, "session.outcome_judged", { status: "unclear", why: "No grader." }),
    event(9, "session.terminal_opened", { opened_by: "Olive" }),
    event(10, "session.terminal_opened", { opened_by: "" }),
  ]);

  expect(texts(state)).toEqual([
    "- Context compacted 61k → 9.2k tokens",
    "[sessions_spawn pending]",
    "- Attached /docs",
    "- Outcome met",
    "- Outcome not met, sent back 1 of 2: Say more.",
    "- Outcome not met",
    "- Outcome unclear: No grader.",
    "- Olive opened a terminal",
    "- A terminal was opened",
  ]);
  expect(visibleItems(state)[1]).toMatchObject({ child: { sessionId: "kid", state: "running" } });
});

test("tokens add up as answers come", () => {
  const usage = { usage: { input_tokens: 1_000, output_tokens: 234 } };
  const state = after([answer(1, "a", usage), answer(2, "b", usage)], begin(1, 500));

  expect(state.tokens).toBe(2_968);
  expect([thousands(812), thousands(2_968), thousands(61_200)]).toEqual(["812", "3.0k", "61k"]);
});

test("the same frames give the same story, wherever they are cut", () => {
  const frames = [
    message(1, "a"),
    start(2),
    delta("e4", 0, "An"),
    message(3, "b"),
    delta("e4", 2, "swer"),
    answer(4, "Answer"),
    end(5),
    start(6, "run-2"),
    delta("e7", 0, "Se"),
    answer(7, "Second"),
    end(8, "run-2"),
  ];
  const whole = texts(after(frames));
  expect(whole).toEqual(["> a", "Answer", "> b", "Second"]);
  for (let cut = 0; cut <= frames.length; cut += 1) {
    const before = after(frames.slice(0, cut));
    const stored = frames.filter((frame) => frame.seq !== null && frame.seq > before.seq);
    expect(texts(after(stored, before))).toEqual(whole);
  }
});
