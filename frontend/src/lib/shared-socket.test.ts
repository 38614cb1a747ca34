import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "./samples/socket.ts";
import { subscribe } from "./socket.ts";

let stops: (() => void)[];

beforeEach(() => {
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  stops = [];
});
afterEach(() => {
  for (const stop of stops) stop();
  vi.unstubAllGlobals();
});

function listen(path = "/ws/approvals/"): { received: string[]; stop: () => void } {
  const received: string[] = [];
  const stop = subscribe(path, (text) => received.push(text));
  stops.push(stop);
  return { received, stop };
}

test("subscribers of one path share a socket, and another path has its own", () => {
  const [one, two, other] = [listen(), listen(), listen("/ws/inbox/")];
  expect(FakeSocket.made.map((socket) => new URL(socket.url).pathname)).toEqual(["/ws/approvals/", "/ws/inbox/"]);
  FakeSocket.made[0]!.say({ pending: 2 });

  expect([one.received, two.received, other.received]).toEqual([['{"pending":2}'], ['{"pending":2}'], []]);
});

test("a late subscriber receives the last message once, after it has subscribed", async () => {
  listen();
  FakeSocket.last.say({ pending: 1 });
  FakeSocket.last.say({ pending: 2 });
  FakeSocket.last.say({ type: "pong" });
  const late = listen();
  expect(late.received).toEqual([]);
  await Promise.resolve();

  expect(late.received).toEqual(['{"pending":2}']);
});

test("a subscriber that leaves at once receives nothing", async () => {
  listen();
  FakeSocket.last.say({ pending: 1 });
  const late = listen();
  late.stop();
  await Promise.resolve();

  expect(late.received).toEqual([]);
});

test("the socket closes with its last subscriber, and leaving twice is harmless", () => {
  const [one, two] = [listen(), listen()];
  one.stop();
  one.stop();
  expect(FakeSocket.last.readyState).not.toBe(FakeSocket.CLOSED);
  two.stop();
  expect(FakeSocket.last.readyState).toBe(FakeSocket.CLOSED);
  listen();

  expect(FakeSocket.made).toHaveLength(2);
});

test("one function can subscribe twice", () => {
  const received: string[] = [];
  const record = (text: string): number => received.push(text);
  const first = subscribe("/ws/approvals/", record);
  stops.push(subscribe("/ws/approvals/", record));
  first();
  FakeSocket.last.say({ pending: 3 });

  expect(received).toEqual(['{"pending":3}']);
});
