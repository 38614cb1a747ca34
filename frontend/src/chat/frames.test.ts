import { expect, test } from "vitest";
import { frameOf, read, type StoredEvent } from "./frames.ts";
import { answer, confirmation, end, failure, message, result, start, use } from "./samples/frames.ts";

test("a frame, an acknowledgement, a refusal and a pong are told apart", () => {
  expect(read(JSON.stringify(answer(3, "hi")))).toMatchObject({ kind: "frame", frame: { seq: 3 } });
  expect(read(JSON.stringify(failure(4)))).toMatchObject({ kind: "frame", frame: { seq: 4 } });
  expect(read('{"type":"ack","id":"x","seq":7,"run_id":"r"}')).toEqual({
    kind: "ack",
    id: "x",
    seq: 7,
    runId: "r",
  });
  expect(read('{"type":"error","id":"x","code":"invalid","error":"No."}')).toEqual({
    kind: "refusal",
    id: "x",
    code: "invalid",
    reason: "No.",
  });
  expect(read('{"type":"pong","id":null}')).toEqual({ kind: "pong" });
});

test("what is not known is passed over", () => {
  expect(read("not json")).toBeNull();
  expect(read('{"type":"progress"}')).toBeNull();
});

function stored(seq: number, type: string, payload: object, runId: string | null): StoredEvent {
  return {
    id: `e${seq}`,
    seq,
    type,
    payload: payload as StoredEvent["payload"],
    run_id: runId,
    created_at: "2026-11-16T09:30:00Z",
    processed_at: null,
  };
}

test("a stored event becomes the frame that the socket would send", () => {
  const said = frameOf(stored(1, "agent.message", { text: "hi", model: "m" }, "run-1"));
  expect(said).toMatchObject({ ...answer(1, "hi"), metadata: { event_id: "e1", model: "m" } });

  const begun = frameOf(stored(2, "session.status_changed", { to: "running" }, "run-1"));
  expect(begun).toMatchObject({ type: "lifecycle", phase: "start", metadata: { run_id: "run-1" } });
  expect(start(2).phase).toBe(begun.phase);

  const over = frameOf(stored(3, "session.status_idle", { stop_reason: "end_turn" }, "run-1"));
  expect(over).toMatchObject({ phase: "end", metadata: { stop_reason: "end_turn" } });
  expect(end(3).type).toBe(over.type);

  const call = { tool_use_id: "c", name: "exec", input: { command: "ls" }, decision: "ask" };
  expect(frameOf(stored(4, "agent.tool_use", call, "run-1"))).toMatchObject({
    ...use(4, "c", "ask", { command: "ls" }),
    metadata: { tool_use_id: "c" },
  });

  const came = { tool_use_id: "c", name: "exec", state: "completed", output: "hello\n" };
  expect(frameOf(stored(5, "agent.tool_result", came, "run-1"))).toMatchObject({
    ...result(5, "c"),
    metadata: { tool_use_id: "c" },
  });

  const yes = { tool_use_id: "c", decision: "allow", input: null };
  const taken = frameOf(stored(6, "user.tool_confirmation", yes, null));
  expect(taken.tool_state).toBe(confirmation(6, "c", "allow").tool_state);
  expect(taken.tool_input).toBeUndefined();

  const wrong = { code: "x", message: "The model refused.", retryable: true };
  expect(frameOf(stored(7, "session.error", wrong, "run-1"))).toMatchObject({
    type: "error",
    error: "The model refused.",
    metadata: { retryable: true, run_id: "run-1" },
  });
});

test("an event without a place of its own is carried whole", () => {
  const event = stored(8, "user.message", { text: "hi" }, null);

  expect(frameOf(event).metadata.event).toEqual(event);
  expect(message(8, "hi").metadata.event).toMatchObject({ payload: { text: "hi" } });
  const later = frameOf(stored(9, "session.status_changed", { to: "rescheduling" }, "r"));
  expect(later.phase).toBeUndefined();
  expect(later.metadata.event?.payload["to"]).toBe("rescheduling");
});
