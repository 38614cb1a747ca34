import { afterEach, expect, test, vi } from "vitest";
import { FakeSocket } from "../lib/samples/socket.ts";
import { countIn, liveCount } from "./live-count.ts";

afterEach(() => vi.unstubAllGlobals());

test("the count follows the socket and is hidden at zero", () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  document.body.innerHTML = `<span data-socket="/ws/inbox/w1/" data-member="unread" hidden></span>`;
  const root = document.querySelector("span")!;
  const cleanUp = liveCount(root);

  expect(FakeSocket.last.url).toMatch(/\/ws\/inbox\/w1\/$/);
  FakeSocket.last.say({ type: "inbox", unread: 3 });
  expect([root.textContent, root.hidden]).toEqual(["3", false]);
  FakeSocket.last.say({ type: "inbox", unread: 150 });
  expect(root.textContent).toBe("99+");
  FakeSocket.last.say({ type: "pong" });
  FakeSocket.last.say({ type: "inbox", unread: 0 });
  expect(root.hidden).toBe(true);
  cleanUp();
  expect(FakeSocket.last.readyState).toBe(FakeSocket.CLOSED);
});

test("other messages contain no count", () => {
  expect(countIn('{"type":"inbox","unread":"3"}', "unread")).toBeNull();
  expect(countIn('{"type":"pong"}', "pending")).toBeNull();
});
