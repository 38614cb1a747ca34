import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "../lib/samples/socket.ts";
import { attach, type Screen, type Size, type TerminalState } from "./attach.ts";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

class FakeScreen implements Screen {
  shown = "";
  cols = 80;
  rows = 24;
  resets = 0;
  /** Callbacks of writes that are not on the screen yet. */
  pending: (() => void)[] = [];
  type: (bytes: Uint8Array<ArrayBuffer>) => void = () => undefined;
  grow: (size: Size) => void = () => undefined;

  size = (): Size => ({ cols: this.cols, rows: this.rows });
  write = (bytes: Uint8Array, done?: () => void): void => {
    this.shown += text(bytes);
    if (done) this.pending.push(done);
  };
  reset = (): void => {
    this.shown = "";
    this.resets += 1;
  };
  resize = ({ cols, rows }: Size): void => {
    this.cols = cols;
    this.rows = rows;
  };
  fit = (): void => undefined;
  onType = (listener: typeof this.type): void => {
    this.type = listener;
  };
  onResize = (listener: typeof this.grow): void => {
    this.grow = listener;
  };
}

class ByteSocket extends FakeSocket {
  typed: string[] = [];

  override send(body: string | Uint8Array): void {
    if (typeof body === "string") super.send(body);
    else this.typed.push(text(body));
  }

  shell(words: string): void {
    const bytes = new TextEncoder().encode(words);
    this.onmessage?.({ data: bytes.buffer as unknown as string });
  }
}

let screen: FakeScreen;
let told: [TerminalState, string][];
let detach: () => void;
const socket = (): ByteSocket => FakeSocket.last as ByteSocket;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.made = [];
  vi.stubGlobal("WebSocket", ByteSocket);
  screen = new FakeScreen();
  told = [];
  detach = attach(screen, () => "ws://x/ws/terminals/1/", { onState: (...said) => told.push(said) });
  socket().open();
});

afterEach(() => {
  detach();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function ready(words: object = {}): void {
  socket().say({ type: "ready", cols: 100, rows: 30, replay: 0, write: true, ...words });
}

test("input is sent as bytes and output of the shell is shown", () => {
  ready();
  screen.type(new TextEncoder().encode("ls é"));
  socket().shell("a file");
  expect(socket().typed).toEqual(["ls é"]);
  expect(screen.shown).toBe("a file");
  expect(told.at(-1)).toEqual(["open", ""]);
});

test("the shell receives the size at once and when it changes", () => {
  ready();
  screen.grow({ cols: 120, rows: 40 });
  expect(socket().sent).toEqual([
    { type: "resize", cols: 80, rows: 24 },
    { type: "resize", cols: 120, rows: 40 },
  ]);
});

test("the screen's answers to replayed output are not sent to the shell", () => {
  ready({ replay: 4 });
  socket().shell("past");
  screen.type(new TextEncoder().encode("\x1b[1;1R"));
  expect(socket().typed).toEqual([]);
  screen.pending.forEach((done) => done());
  screen.type(new TextEncoder().encode("x"));
  expect(socket().typed).toEqual(["x"]);
});

test("a watcher sends no input and takes the writer's size", () => {
  ready({ write: false });
  screen.type(new TextEncoder().encode("rm"));
  screen.grow({ cols: 9, rows: 9 });
  socket().say({ type: "resize", cols: 70, rows: 20 });
  expect(socket().typed).toEqual([]);
  expect(socket().sent).toEqual([]);
  expect(screen.size()).toEqual({ cols: 70, rows: 20 });
  expect(told.at(-1)).toEqual(["watching", ""]);
});

test("after a lost connection the screen is cleared and replayed", () => {
  ready();
  socket().shell("first");
  const first = socket();
  first.break();
  expect(told.at(-1)).toEqual(["lost", ""]);
  vi.advanceTimersByTime(2_000);
  expect(socket()).not.toBe(first);
  socket().open();
  ready({ replay: 5 });
  socket().shell("first");
  expect(screen.shown).toBe("first");
});

test("a closed terminal shows the reason and is not retried", () => {
  ready();
  socket().say({ type: "closed", reason: "Closed by Olive." });
  socket().break(4410);
  expect(told.at(-1)).toEqual(["over", "Closed by Olive."]);
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.made).toHaveLength(1);
});
