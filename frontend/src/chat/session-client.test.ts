import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Rest } from "../lib/rest.ts";
import { FakeSocket } from "../lib/samples/socket.ts";
import { placesOf } from "./messages.ts";
import { BOOTSTRAP } from "./samples/bootstrap.ts";
import { answer, delta, end, message, start } from "./samples/frames.ts";
import { SessionClient } from "./session-client.ts";
import { visibleItems } from "./transcript.ts";

let client: SessionClient;
let asked: string[];
let keys: (string | undefined)[];
let answers: Record<string, unknown>;

const open = (rest: Rest): SessionClient =>
  new SessionClient({
    bootstrap: BOOTSTRAP,
    rest,
    store: localStorage,
    onChange: () => undefined,
    onLink: () => undefined,
  });

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  localStorage.clear();
  asked = [];
  answers = {};
  keys = [];
  const call = (verb: string) => async (path: string, _body?: unknown, key?: string) => {
    asked.push(`${verb} ${path}`);
    if (verb === "POST") keys.push(key);
    return answers[path] ?? { results: [] };
  };
  const rest = {
    get: call("GET"),
    post: call("POST"),
    patch: call("PATCH"),
    remove: call("DELETE"),
  } as unknown as Rest;
  client = open(rest);
  FakeSocket.last.open();
});
afterEach(() => {
  client.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const say = (...frames: object[]): void => frames.forEach((frame) => FakeSocket.last.say(frame));
const texts = (): string[] =>
  visibleItems(client.state).map((item) => ("text" in item ? item.text : item.kind));

test("it connects after the last event of the page", () => {
  expect(FakeSocket.last.url).toMatch(/\/ws\/sessions\/s1\/\?after=0$/);
});

test("a gap makes it connect again from what it has, and go on", () => {
  say(message(1, "hi"), start(2), delta("e3", 0, "One"), delta("e3", 9, "three"));
  expect(FakeSocket.made).toHaveLength(2);
  expect(FakeSocket.last.url).toMatch(/after=2$/);
  FakeSocket.last.open();
  say(delta("e3", 0, "One, two, three"));

  expect(texts()).toEqual(["hi", "One, two, three"]);
  expect(FakeSocket.made).toHaveLength(2);
});

test("a socket cut twenty times tells the same story", () => {
  const whole = Array.from({ length: 20 }, (_, nth) => `word${nth} `).join("");
  say(message(1, "hi"), start(2));
  for (let cut = 0; cut < 20; cut += 1) {
    say(delta("e3", 0, whole.slice(0, (cut + 1) * 5)));
    FakeSocket.last.break();
    vi.advanceTimersByTime(1_000);
    FakeSocket.last.open();
  }
  say(answer(3, whole));

  expect(texts()).toEqual(["hi", whole]);
});

test("a message is sent with an id and acknowledged", () => {
  client.send("hello", "followup");
  const [sent] = FakeSocket.last.sent;
  expect(sent).toMatchObject({ type: "user.message", payload: { text: "hello" } });
  say({ type: "ack", id: sent!["id"], seq: 1, run_id: "r" }, message(1, "hello"));

  expect(texts()).toEqual(["hello"]);
  expect(client.state.outbox).toEqual([]);
});

test("a page that is opened again sends what it had not got away, once", () => {
  client.send("hello", "followup");
  const first = FakeSocket.last.sent[0]!["id"];
  client.close();
  client = open({} as Rest);
  expect(texts()).toEqual(["hello"]);
  FakeSocket.last.open();

  expect(FakeSocket.last.sent).toMatchObject([{ id: first, payload: { text: "hello" } }]);
});

test("a refused message keeps its words and the reason", () => {
  client.send("hello", "followup");
  const id = FakeSocket.last.sent[0]!["id"];
  say({ type: "error", id, code: "session_ended", error: "The session has ended." });

  expect(visibleItems(client.state)[0]).toMatchObject({
    text: "hello",
    receipt: "failed",
    reason: "The session has ended.",
  });
});

test("the queue is asked for once after several messages came", async () => {
  answers["/api/v1/sessions/s1/queue/"] = {
    results: [{ run_id: "run-2", text: "b", message_seqs: [3] }],
    last_seq: 4,
  };
  say(message(1, "a"), start(2), message(3, "b"), message(4, "c"));
  await vi.advanceTimersByTimeAsync(500);

  expect(asked.filter((one) => one.endsWith("/queue/"))).toHaveLength(1);
  expect(client.state.waiting.map((item) => item.runId)).toEqual(["run-2"]);
  expect(texts()).toEqual(["a", "c"]);
});

test("whoever looks at the page again sees the order that another page gave the queue", async () => {
  const [b, c] = ["b", "c"].map((text, n) => ({ run_id: `run-${text}`, text, message_seqs: [3 + n] }));
  answers["/api/v1/sessions/s1/queue/"] = { results: [b, c], last_seq: 4 };
  say(message(1, "a"), start(2), message(3, "b"), message(4, "c"));
  await vi.advanceTimersByTimeAsync(500);
  answers["/api/v1/sessions/s1/queue/"] = { results: [c, b], last_seq: 4 };
  window.dispatchEvent(new Event("focus"));
  await vi.advanceTimersByTimeAsync(500);

  expect(placesOf(client.state).map((place) => place.text)).toEqual(["c", "b"]);
});

test("a queue that is newer than the frames waits for them, and nothing that waited is lost", async () => {
  const path = "/api/v1/sessions/s1/queue/";
  say(message(1, "a"), start(2), message(3, "b"));
  // The server has ended the first run and begun the second; its frames are on their way.
  answers[path] = { results: [], last_seq: 6 };
  await vi.advanceTimersByTimeAsync(5_000);
  expect(client.state.waiting.map((item) => item.text)).toEqual(["b"]);
  expect(asked.filter((one) => one.endsWith("/queue/"))).toHaveLength(1);
  say(answer(4, "One."), end(5), start(6, "run-2"));
  await vi.advanceTimersByTimeAsync(500);

  expect(texts()).toEqual(["a", "One.", "b"]);
  expect(visibleItems(client.state).at(-1)).toMatchObject({ receipt: "taken", runId: "run-2" });
});

test("a stop resolves with its acknowledgement and rejects with the reason", async () => {
  const stopped = client.stop();
  say({ type: "ack", id: FakeSocket.last.sent[0]!["id"], seq: 1, run_id: null });
  await expect(stopped).resolves.toBeUndefined();

  const answered = client.answer("c1", {
    decision: "allow",
    scope: "session",
    note: "",
    input: { command: "ls" },
  });
  const sent = FakeSocket.last.sent[1]!;
  expect(sent["payload"]).toEqual({
    tool_use_id: "c1",
    decision: "allow",
    scope: "session",
    note: "",
    input: { command: "ls" },
  });
  say({ type: "error", id: sent["id"], code: "nothing_to_answer", error: "Too late." });
  await expect(answered).rejects.toThrow("Too late.");
});

test("without a socket, or without an answer, a stop goes over REST", async () => {
  const silent = client.stop();
  await vi.advanceTimersByTimeAsync(8_000);
  await silent;
  FakeSocket.last.break();
  await client.stop();

  expect(asked.filter((one) => one.startsWith("POST"))).toEqual([
    "POST /api/v1/sessions/s1/events/",
    "POST /api/v1/sessions/s1/events/",
  ]);
});

test("a stop names the run that it means, and goes by its id on whichever way", async () => {
  say(message(1, "hi"), start(2));
  const silent = client.stop();
  const [sent] = FakeSocket.last.sent;
  expect(sent).toMatchObject({ type: "user.interrupt", payload: { run_id: "run-1" } });
  await vi.advanceTimersByTimeAsync(8_000);
  await silent;

  expect(keys).toEqual([sent!["id"]]);
});

test("a stop that finds its run over is no trouble, another refusal is", async () => {
  const over = client.stop();
  const refuse = (nth: number, code: string): void =>
    say({ type: "error", id: FakeSocket.last.sent[nth]!["id"], code, error: "No." });
  refuse(0, "run_over");
  await expect(over).resolves.toBeUndefined();

  const forbidden = client.stop();
  refuse(1, "forbidden");
  await expect(forbidden).rejects.toThrow("No.");
});

test("send now is one request: no message is between the queue and the answer", async () => {
  await client.queue.sendNow("run-2", "steer");

  expect(asked).toEqual(["PATCH /api/v1/sessions/s1/queue/run-2/"]);
  expect(FakeSocket.last.sent).toEqual([]);
});

test("a whole result and a retry are asked for where they are", async () => {
  answers["/api/v1/sessions/s1/events/?after=41&limit=1"] = {
    results: [{ payload: { output: "all of it" } }],
  };
  expect(await client.wholeOutput(42)).toBe("all of it");
  await client.retry("run-1");

  expect(asked).toContain("POST /api/v1/runs/run-1/retry/");
});
