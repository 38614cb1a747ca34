import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "./samples/socket.ts";
import {
  ANSWER_MS,
  connect,
  FIRST_PAUSE_MS,
  HANDSHAKE_MS,
  type Link,
  LONGEST_PAUSE_MS,
  pause,
  PROMPT_MS,
  QUIET_MS,
} from "./socket.ts";

let link: Link;
let cursor: number;
let states: string[];
let received: string[];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  cursor = 0;
  states = [];
  received = [];
  link = connect({
    path: () => `/ws/yard/?after=${cursor}`,
    onMessage: (text) => received.push(text),
    onState: (state, code) => states.push(code ? `${state} ${code}` : state),
  });
});
afterEach(() => {
  link.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test("the connection names its protocol and passes messages on", () => {
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "pong" });

  expect(FakeSocket.last.protocol).toBe("switchyard.v1");
  expect(received).toEqual(['{"type":"pong"}']);
  expect(states).toEqual(["connecting", "open"]);
});

test("a lost socket is reopened after a pause, at the current cursor", () => {
  FakeSocket.last.open();
  cursor = 41;
  FakeSocket.last.break();
  expect(states.at(-1)).toBe("lost 1006");
  vi.advanceTimersByTime(FIRST_PAUSE_MS);

  expect(FakeSocket.made.map((one) => one.url)).toEqual(["ws://localhost:3000/ws/yard/?after=0", "ws://localhost:3000/ws/yard/?after=41"]);
});

test("a handshake that takes too long is aborted", () => {
  vi.advanceTimersByTime(HANDSHAKE_MS);

  expect(states).toEqual(["connecting", "lost"]);
  expect(FakeSocket.made[0]!.readyState).toBe(FakeSocket.CLOSED);
});

test("pauses grow up to a limit and are randomised", () => {
  const longest = [0, 1, 2, 3, 4, 5, 9].map((failures) => pause(failures, () => 1));
  const shortest = [0, 9].map((failures) => pause(failures, () => 0));

  expect(longest).toEqual([1, 2, 4, 8, 16, 30, 30].map((seconds) => seconds * 1000));
  expect(shortest).toEqual([FIRST_PAUSE_MS / 2, LONGEST_PAUSE_MS / 2]);
});

test("failures are counted until the server sends a message", () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  const pauseAfterBreak = (): number => {
    const tries = FakeSocket.made.length;
    FakeSocket.last.break();
    let waited = 0;
    while (FakeSocket.made.length === tries) {
      vi.advanceTimersByTime(500);
      waited += 500;
    }
    return waited;
  };
  expect([pauseAfterBreak(), pauseAfterBreak(), pauseAfterBreak()]).toEqual([1_000, 2_000, 4_000]);
  FakeSocket.last.open();
  expect(pauseAfterBreak()).toBe(8_000);
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "pong" });

  expect(pauseAfterBreak()).toBe(FIRST_PAUSE_MS);
});

test.each(["online", "visibilitychange"])("%s causes a new attempt at once", (news) => {
  FakeSocket.last.break();
  FakeSocket.last.break();
  const tries = FakeSocket.made.length;
  (news === "online" ? window : document).dispatchEvent(new Event(news));

  expect(FakeSocket.made).toHaveLength(tries + 1);
});

test("an open socket is pinged when the page comes back, and kept if it answers", () => {
  FakeSocket.last.open();
  window.dispatchEvent(new Event("online"));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(FakeSocket.last.sent).toEqual([{ type: "ping" }]);
  FakeSocket.last.say({ type: "pong" });
  vi.advanceTimersByTime(ANSWER_MS);
  expect(FakeSocket.made).toHaveLength(1);

  document.dispatchEvent(new Event("visibilitychange"));
  vi.advanceTimersByTime(ANSWER_MS);
  expect(states.at(-1)).toBe("lost");
});

test("a connection that does not answer is pinged soon, even while messages are sent", () => {
  FakeSocket.last.open();
  for (let count = 0; count < 10; count += 1) {
    link.send({ type: "user.message" });
    vi.advanceTimersByTime(PROMPT_MS / 10);
  }
  expect(FakeSocket.last.sent.at(-1)).toEqual({ type: "ping" });
  link.send({ type: "user.interrupt" });
  vi.advanceTimersByTime(ANSWER_MS);

  expect(states.at(-1)).toBe("lost");
});

test("a connection that answers is not pinged", () => {
  FakeSocket.last.open();
  link.send({ type: "user.message" });
  FakeSocket.last.say({ type: "ack" });
  vi.advanceTimersByTime(QUIET_MS - 1);

  expect(FakeSocket.last.sent).toHaveLength(1);
});

test("going offline between two attempts leaves one attempt", () => {
  const chance = vi.spyOn(Math, "random").mockReturnValue(1);
  for (let tries = 0; tries < 6; tries += 1) {
    FakeSocket.last.break();
    vi.advanceTimersByTime(LONGEST_PAUSE_MS);
  }
  FakeSocket.last.break();
  chance.mockReturnValue(0);
  window.dispatchEvent(new Event("offline"));
  const tries = FakeSocket.made.length;
  vi.advanceTimersByTime(LONGEST_PAUSE_MS / 2);
  FakeSocket.last.open();
  vi.advanceTimersByTime(LONGEST_PAUSE_MS / 2);

  expect(FakeSocket.made).toHaveLength(tries + 1);
});

test("the socket is closed when the browser goes offline", () => {
  FakeSocket.last.open();
  window.dispatchEvent(new Event("offline"));

  expect(states.at(-1)).toBe("lost");
  expect(FakeSocket.made[0]!.readyState).toBe(FakeSocket.CLOSED);
});

test.each([4401, 4403, 4404])("close code %i ends the connection", (code) => {
  FakeSocket.last.open();
  FakeSocket.last.break(code);
  vi.advanceTimersByTime(10 * LONGEST_PAUSE_MS);
  window.dispatchEvent(new Event("online"));

  expect(states.at(-1)).toBe(`ended ${code}`);
  expect(FakeSocket.made).toHaveLength(1);
});

test("a connection that was authenticated once is retried before it ends", () => {
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "pong" });
  FakeSocket.last.break(4401);
  expect(FakeSocket.made).toHaveLength(2);
  FakeSocket.last.open();
  FakeSocket.last.break(4401);

  expect(states.at(-1)).toBe("ended 4401");
  expect(FakeSocket.made).toHaveLength(2);
});

test.each([4408, 4429, 4503, 1012])("close code %i causes a new attempt", (code) => {
  FakeSocket.last.open();
  FakeSocket.last.break(code);
  vi.advanceTimersByTime(FIRST_PAUSE_MS);

  expect(FakeSocket.made).toHaveLength(2);
});

test("a silent connection is pinged and closed without an answer", () => {
  FakeSocket.last.open();
  vi.advanceTimersByTime(QUIET_MS);
  expect(FakeSocket.last.sent).toEqual([{ type: "ping" }]);
  FakeSocket.last.say({ type: "pong" });
  vi.advanceTimersByTime(QUIET_MS + ANSWER_MS - 1);
  expect(states.at(-1)).toBe("open");
  vi.advanceTimersByTime(1);

  expect(states.at(-1)).toBe("lost");
});

test("send reports whether the message was sent", () => {
  expect(link.send({ type: "ping" })).toBe(false);
  FakeSocket.last.open();

  expect(link.send({ type: "ping" })).toBe(true);
});

test("a resync drops the socket and starts at the cursor", () => {
  FakeSocket.last.open();
  const first = FakeSocket.last;
  cursor = 7;
  link.resync();
  first.onmessage?.({ data: "late" });

  expect(FakeSocket.last.url).toBe("ws://localhost:3000/ws/yard/?after=7");
  expect(received).toEqual([]);
});
