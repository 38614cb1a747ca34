import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Rest } from "../lib/rest.ts";
import { FakeSocket } from "../lib/samples/socket.ts";
import { BOOTSTRAP, conversation } from "./samples/bootstrap.ts";
import { answer, delta, end, message, start } from "./samples/frames.ts";
import { SessionClient } from "./session-client.ts";
import { unshownMessages } from "./live-state.ts";
import type { Conversation } from "./types.ts";

let client: SessionClient;
let asked: string[];
let keys: (string | undefined)[];
let answers: Record<string, unknown>;
let fetched: string[];
let reply: () => Promise<Response>;
let shown: Conversation[];

const open = (rest: Rest): SessionClient =>
  new SessionClient({
    bootstrap: BOOTSTRAP,
    rest,
    store: localStorage,
    versions: () => ["a1", "b2"],
    onChange: () => undefined,
    onLines: (lines) => shown.push(lines),
    onLink: () => undefined,
  });

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  localStorage.clear();
  asked = [];
  fetched = [];
  shown = [];
  answers = {};
  reply = async () => Response.json(conversation([], "", { last_seq: client.state.seq }));
  vi.stubGlobal("fetch", (path: string) => {
    fetched.push(path);
    return reply();
  });
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
const drafts = (): string[] => client.state.drafts.map((draft) => draft.text);
const outgoing = (): string[] => unshownMessages(client.state).map((one) => one.text);

test("it connects after the last event of the page", () => {
  expect(FakeSocket.last.url).toMatch(/\/ws\/sessions\/s1\/\?after=0$/);
});

test("a gap makes it connect again from what it has, and go on", () => {
  say(message(1, "hi"), start(2), delta("e3", 0, "One"), delta("e3", 9, "three"));
  expect(FakeSocket.made).toHaveLength(2);
  expect(FakeSocket.last.url).toMatch(/after=2$/);
  FakeSocket.last.open();
  say(delta("e3", 0, "One, two, three"));

  expect(drafts()).toEqual(["One, two, three"]);
  expect(FakeSocket.made).toHaveLength(2);
});

test("a socket cut twenty times tells the same story", async () => {
  const whole = Array.from({ length: 20 }, (_, nth) => `word${nth} `).join("");
  say(message(1, "hi"), start(2));
  for (let cut = 0; cut < 20; cut += 1) {
    say(delta("e3", 0, whole.slice(0, (cut + 1) * 5)));
    FakeSocket.last.break();
    vi.advanceTimersByTime(1_000);
    FakeSocket.last.open();
  }
  expect(drafts()).toEqual([whole.slice(0, 100)]);
  say(answer(3, whole));
  await vi.advanceTimersByTimeAsync(500);

  expect(drafts()).toEqual([]);
  expect(shown.at(-1)?.last_seq).toBe(3);
});

test("a message is sent with an id, and shown until the server's lines have it", async () => {
  client.send("hello", "followup");
  const [sent] = FakeSocket.last.sent;
  expect(sent).toMatchObject({ type: "user.message", payload: { text: "hello" } });
  say({ type: "ack", id: sent!["id"], seq: 1, run_id: "r" }, message(1, "hello"));

  expect(outgoing()).toEqual(["hello"]);
  await vi.advanceTimersByTimeAsync(500);
  expect(client.state.outbox).toEqual([]);
});

test("a page that is opened again sends what it had not got away, once", () => {
  client.send("hello", "followup");
  const first = FakeSocket.last.sent[0]!["id"];
  client.close();
  client = open({} as Rest);
  expect(outgoing()).toEqual(["hello"]);
  FakeSocket.last.open();

  expect(FakeSocket.last.sent).toMatchObject([{ id: first, payload: { text: "hello" } }]);
});

test("a refused message keeps its words and the reason", () => {
  client.send("hello", "followup");
  const id = FakeSocket.last.sent[0]!["id"];
  say({ type: "error", id, code: "session_ended", error: "The session has ended." });

  expect(unshownMessages(client.state)[0]).toMatchObject({
    text: "hello",
    state: "failed",
    reason: "The session has ended.",
  });
});

test("frames that arrive together cause one request, which names what the page has", async () => {
  say(message(1, "a"), start(2), message(3, "b"), message(4, "c"));
  await vi.advanceTimersByTimeAsync(500);

  expect(fetched).toEqual(["/chat/s1/lines/?from=1&have=a1.b2"]);
  expect(shown).toHaveLength(1);
});

test("frames during a request cause one more after it, never two at once", async () => {
  let answerFirst: (answer: Response) => void = () => undefined;
  reply = () => new Promise((done) => (answerFirst = done));
  say(message(1, "a"));
  await vi.advanceTimersByTimeAsync(500);
  say(start(2), answer(3, "One."));
  await vi.advanceTimersByTimeAsync(500);
  expect(fetched).toHaveLength(1);
  reply = async () => Response.json(conversation([], "", { last_seq: 3, first_seq: 2 }));
  answerFirst(Response.json(conversation([], "", { last_seq: 1 })));
  await vi.advanceTimersByTimeAsync(500);

  expect(fetched).toHaveLength(2);
  say(end(4));
  await vi.advanceTimersByTimeAsync(500);
  expect(fetched.at(-1)).toBe("/chat/s1/lines/?from=2&have=a1.b2");
});

test("a request that fails is repeated", async () => {
  reply = () => Promise.reject(new TypeError("Failed to fetch"));
  say(message(1, "a"));
  await vi.advanceTimersByTimeAsync(500);
  expect(shown).toEqual([]);
  reply = async () => Response.json(conversation([], "", { last_seq: 1 }));
  await vi.advanceTimersByTimeAsync(5_000);

  expect(shown).toHaveLength(1);
});

test("frames tell the status at once, and the server's answer only if it is as new", async () => {
  say(message(1, "a"), start(2));
  expect(client.state).toMatchObject({ status: "running", runId: "run-1" });
  reply = async () => Response.json(conversation([], "", { last_seq: 1, status: "idle" }));
  await vi.advanceTimersByTimeAsync(500);
  expect(client.state.status).toBe("running");
  reply = async () => Response.json(conversation([], "", { last_seq: 3, status: "requires_action" }));
  say(answer(3, "One."));
  await vi.advanceTimersByTimeAsync(500);

  expect(client.state).toMatchObject({ status: "requires_action", runId: null });
});

test("an earlier part is fetched before the first event that the page shows", async () => {
  client.close();
  client = new SessionClient({
    bootstrap: { ...BOOTSTRAP, first_seq: 401, last_seq: 600 },
    rest: { get: async () => ({ first_seq: 201, html: "<li></li>" }) } as unknown as Rest,
    store: localStorage,
    versions: () => [],
    onChange: () => undefined,
    onLines: () => undefined,
    onLink: () => undefined,
  });
  expect(await client.fetchEarlier()).toBe("<li></li>");

  expect(client.hasEarlier).toBe(true);
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
