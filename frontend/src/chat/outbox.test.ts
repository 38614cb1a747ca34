import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Refused, type Rest } from "../lib/rest.ts";
import { Outbox } from "./outbox.ts";
import type { Action } from "./live-state.ts";

let actions: Action[];
let sent: Record<string, unknown>[];
let posts: [body: Record<string, unknown>, key: string | undefined][];
let isOpen: boolean;
let fault: Error | null;
let box: Outbox;

const rest = {
  post: async (_path: string, body: Record<string, unknown>, key?: string) => {
    posts.push([body, key]);
    if (fault) throw fault;
    return { event: { seq: 12 }, run_id: "run-1" };
  },
} as unknown as Rest;

function open(): Outbox {
  return new Outbox({
    store: localStorage,
    name: "outbox",
    rest,
    path: "/messages/",
    send: (message) => {
      if (isOpen) sent.push(message as Record<string, unknown>);
      return isOpen;
    },
    dispatch: (action) => actions.push(action),
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  actions = [];
  sent = [];
  posts = [];
  isOpen = true;
  fault = null;
  box = open();
});
afterEach(() => {
  box.close();
  vi.useRealTimers();
});

const kept = (): { id: string; text: string }[] =>
  JSON.parse(localStorage.getItem("outbox") ?? "[]") as { id: string; text: string }[];
const idOf = (nth = 0): string => String(sent[nth]?.["id"]);

test("a message goes over the socket with an id, and is kept until it is acknowledged", () => {
  box.send("hello", "steer");

  expect(sent).toEqual([
    { type: "user.message", payload: { text: "hello" }, id: idOf(), on_busy: "steer" },
  ]);
  expect(kept()).toMatchObject([{ id: idOf(), text: "hello" }]);
  box.acknowledge(idOf(), 5);
  expect(kept()).toEqual([]);
  expect(actions.map((action) => action.type)).toEqual(["sending", "acknowledged"]);
});

test("without an acknowledgement the same id goes over the next socket", () => {
  box.send("hello", "followup");
  isOpen = false;
  box.flush();
  isOpen = true;
  box.flush();

  expect(sent).toHaveLength(2);
  expect(idOf(1)).toBe(idOf(0));
  expect(posts).toEqual([]);
});

test("a reload sends what was not acknowledged, once more under its id", () => {
  box.send("hello", "followup");
  const again = open();
  again.flush();

  expect(idOf(1)).toBe(idOf(0));
  expect(actions.filter((action) => action.type === "sending")).toHaveLength(2);
});

test("without a socket REST takes it, with the id as its key", async () => {
  isOpen = false;
  box.send("hello", "interrupt");
  await vi.runAllTimersAsync();

  const [[body, key]] = posts as [[Record<string, unknown>, string]];
  expect(body).toEqual({ text: "hello", on_busy: "interrupt" });
  expect(key).toBeTruthy();
  expect(actions.at(-1)).toEqual({ type: "acknowledged", id: key, seq: 12 });
  expect(kept()).toEqual([]);
});

test("what began over REST stays with REST, where its key is known", async () => {
  isOpen = false;
  fault = new TypeError("Failed to fetch");
  box.send("hello", "followup");
  await vi.advanceTimersByTimeAsync(1);
  isOpen = true;
  fault = null;
  box.flush();
  await vi.advanceTimersByTimeAsync(1);

  expect(sent).toEqual([]);
  expect(posts.map(([, key]) => key)).toEqual([posts[0]![1], posts[0]![1]]);
  expect(kept()).toEqual([]);
});

test("what is being posted is not posted again when the socket opens", async () => {
  isOpen = false;
  box.send("hello", "followup");
  box.flush();
  expect(posts).toHaveLength(1);
  await vi.runAllTimersAsync();

  expect(kept()).toEqual([]);
});

test("an unreachable server is asked again and again, never given up", async () => {
  isOpen = false;
  fault = new TypeError("Failed to fetch");
  box.send("hello", "followup");
  await vi.advanceTimersByTimeAsync(30_000);

  expect(posts.length).toBeGreaterThan(3);
  expect(kept()).toHaveLength(1);
  expect(actions.map((action) => action.type)).toEqual(["sending"]);
});

test.each([
  ["a refusal", new Refused("The session has ended.", 409, "session_ended"), true],
  ["a wrong text", new Refused("Too long.", 400), true],
  ["a first request that still runs", new Refused("", 409, "idempotency_in_flight"), false],
  ["too many requests", new Refused("", 429), false],
  ["a broken server", new Refused("", 503), false],
])("%s", async (_name, refusal, isFinal) => {
  isOpen = false;
  fault = refusal;
  box.send("hello", "followup");
  await vi.advanceTimersByTimeAsync(1);

  expect(actions.some((action) => action.type === "refused")).toBe(isFinal);
  expect(kept()).toHaveLength(1);
});

test.each(["throttled", "stream_unavailable"])(
  "a socket that says %s is told the same again, under the same id",
  (code) => {
    box.send("hello", "followup");
    expect(box.refuse(idOf(), "Not now.", code)).toBe(true);
    vi.advanceTimersByTime(5_000);

    expect(idOf(1)).toBe(idOf(0));
    expect(actions.map((action) => action.type)).toEqual(["sending"]);
  },
);

test("a reload shows what was refused, and sends it only when told to", async () => {
  isOpen = false;
  fault = new Refused("You are signed out.", 401);
  box.send("precious", "followup");
  await vi.advanceTimersByTimeAsync(1);
  const [first] = kept();
  actions = [];
  posts = [];
  isOpen = true;
  const again = open();
  again.flush();

  expect(actions).toMatchObject([
    { type: "sending", message: { text: "precious" } },
    { type: "refused", id: first!.id, reason: "You are signed out." },
  ]);
  expect([sent, posts]).toEqual([[], []]);
  again.again(first!.id);
  expect(sent).toMatchObject([{ payload: { text: "precious" } }]);
  again.acknowledge(idOf(), 5);
  expect(kept()).toEqual([]);
});

test("two windows do not forget what the other one sends", () => {
  const other = open();
  box.send("mine", "followup");
  other.send("theirs", "followup");
  box.acknowledge(idOf(0), 5);

  expect(kept().map((one) => one.text)).toEqual(["theirs"]);
});

test("a refused message can be sent again as a new one, or dropped", () => {
  box.send("hello", "followup");
  expect(box.refuse(idOf(), "No.")).toBe(true);
  box.again(idOf());

  expect(sent).toHaveLength(2);
  expect(idOf(1)).not.toBe(idOf(0));
  expect(actions.map((action) => action.type)).toEqual(["sending", "refused", "dropped", "sending"]);
  expect(box.refuse("unknown", "No.")).toBe(false);
});
