import { expect, test } from "vitest";
import { read } from "./frames.ts";
import { answer, failure } from "./samples/frames.ts";

test("a frame, an acknowledgement, a refusal and a pong are told apart", () => {
  expect(read(JSON.stringify(answer(3, "hi")))).toMatchObject({ kind: "frame", frame: { seq: 3 } });
  expect(read(JSON.stringify(failure(4)))).toMatchObject({ kind: "frame", frame: { seq: 4 } });
  expect(read('{"type":"ack","id":"x","seq":7,"run_id":"r"}')).toEqual({
    kind: "ack",
    id: "x",
    seq: 7,
  });
  expect(read('{"type":"error","id":"x","code":"invalid","error":"No."}')).toEqual({
    kind: "refusal",
    id: "x",
    code: "invalid",
    reason: "No.",
  });
  expect(read('{"type":"pong","id":null}')).toEqual({ kind: "pong" });
  expect(read('{"type":"queue"}')).toEqual({ kind: "queue" });
});

test("what is not known is passed over", () => {
  expect(read("not json")).toBeNull();
  expect(read('{"type":"progress"}')).toBeNull();
});
