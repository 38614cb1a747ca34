import { afterEach, expect, test, vi } from "vitest";
import { countIn, liveCount } from "./live-count.ts";

class FakeSocket {
  static last: FakeSocket;
  static readonly OPEN = 1;
  readyState = 1;
  onmessage: ((event: { data: string }) => void) | null = null;
  closed = false;
  readonly url: string;
  constructor(url: string) {
    this.url = url;
    FakeSocket.last = this;
  }
  send(): void {}
  close(): void {
    this.closed = true;
  }
}

afterEach(() => vi.unstubAllGlobals());

test("the count follows what the socket says, and hides at nothing", () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  document.body.innerHTML = `<span data-socket="/ws/inbox/w1/" data-member="unread" hidden></span>`;
  const root = document.querySelector("span")!;
  const cleanUp = liveCount(root);

  expect(FakeSocket.last.url).toMatch(/\/ws\/inbox\/w1\/$/);
  FakeSocket.last.onmessage?.({ data: '{"type":"inbox","unread":3}' });
  expect([root.textContent, root.hidden]).toEqual(["3", false]);
  FakeSocket.last.onmessage?.({ data: '{"type":"inbox","unread":150}' });
  expect(root.textContent).toBe("99+");
  FakeSocket.last.onmessage?.({ data: '{"type":"pong"}' });
  FakeSocket.last.onmessage?.({ data: '{"type":"inbox","unread":0}' });
  expect(root.hidden).toBe(true);
  cleanUp();
  expect(FakeSocket.last.closed).toBe(true);
});

test("other messages are no count", () => {
  expect(countIn('{"type":"inbox","unread":"3"}', "unread")).toBeNull();
  expect(countIn('{"type":"pong"}', "pending")).toBeNull();
});
