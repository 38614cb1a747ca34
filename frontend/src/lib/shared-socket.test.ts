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

function listen(path = "/ws/approvals/"): { heard: string[]; stop: () => void } {
  const heard: string[] = [];
  const stop = subscribe(path, (text) => heard.push(text));
  stops.push(stop);
  return { heard, stop };
}

test("all parts of a page hear one socket, and another path has its own", () => {
  const [one, two, other] = [listen(), listen(), listen("/ws/inbox/")];
  expect(FakeSocket.made.map((socket) => new URL(socket.url).pathname)).toEqual(["/ws/approvals/", "/ws/inbox/"]);
  FakeSocket.made[0]!.say({ pending: 2 });

  expect([one.heard, two.heard, other.heard]).toEqual([['{"pending":2}'], ['{"pending":2}'], []]);
});

test("who comes late is told what rang last, once, and not before it listens", async () => {
  listen();
  FakeSocket.last.say({ pending: 1 });
  FakeSocket.last.say({ pending: 2 });
  FakeSocket.last.say({ type: "pong" });
  const late = listen();
  expect(late.heard).toEqual([]);
  await Promise.resolve();

  expect(late.heard).toEqual(['{"pending":2}']);
});

test("who leaves at once hears nothing", async () => {
  listen();
  FakeSocket.last.say({ pending: 1 });
  const late = listen();
  late.stop();
  await Promise.resolve();

  expect(late.heard).toEqual([]);
});

test("the socket is closed by the last who leaves, and leaving twice is leaving once", () => {
  const [one, two] = [listen(), listen()];
  one.stop();
  one.stop();
  expect(FakeSocket.last.readyState).not.toBe(FakeSocket.CLOSED);
  two.stop();
  expect(FakeSocket.last.readyState).toBe(FakeSocket.CLOSED);
  listen();

  expect(FakeSocket.made).toHaveLength(2);
});

test("one function may listen twice", () => {
  const heard: string[] = [];
  const hear = (text: string): number => heard.push(text);
  const first = subscribe("/ws/approvals/", hear);
  stops.push(subscribe("/ws/approvals/", hear));
  first();
  FakeSocket.last.say({ pending: 3 });

  expect(heard).toEqual(['{"pending":3}']);
});
