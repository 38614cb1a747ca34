/**
 * A reconnecting WebSocket.
 *
 * It resumes after the last stored frame, so nothing is lost or repeated. Slow handshakes are
 * abandoned, retries back off with jitter, and becoming online or visible retries immediately.
 */

export type SocketState = "connecting" | "open" | "lost" | "ended";

interface SocketOptions {
  /** Path on this server, computed at each connection as the cursor moves. */
  path: () => string;
  onMessage: (text: string) => void;
  /** Receives binary messages. */
  onBytes?: (bytes: Uint8Array) => void;
  /** More close codes after which retrying is pointless. */
  final?: readonly number[];
  /** `code` is the close code of a socket that ended for good. */
  onState: (state: SocketState, code: number) => void;
}

export interface Link {
  /** Returns false if the socket isn't open. */
  send(message: object): boolean;
  sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean;
  /** Reconnect immediately because frames are missing. */
  resync(): void;
  close(): void;
}

export const HANDSHAKE_MS = 10_000;
export const FIRST_PAUSE_MS = 1_000;
export const LONGEST_PAUSE_MS = 30_000;
const SIGNED_OUT = 4401;
/** Close codes after which retrying is pointless: not signed in, not allowed, not found. */
const FINAL = new Set([SIGNED_OUT, 4403, 4404]);
const SUBPROTOCOL = "switchyard.v1";

export function connect(options: SocketOptions): Link {
  let socket: WebSocket | null = null;
  let failures = 0;
  let closed = false;
  let retry: number | undefined;
  /** Whether the server has sent anything on this socket. */
  let hasReceived = false;
  const watchdog = createWatchdog({
    ping: () => socket?.send(JSON.stringify({ type: "ping" })),
    giveUp: () => lose(0),
  });

  function open(): void {
    window.clearTimeout(retry);
    drop();
    if (closed) return;
    hasReceived = false;
    options.onState("connecting", 0);
    const mine = new WebSocket(addressOf(options.path()), SUBPROTOCOL);
    socket = mine;
    mine.binaryType = "arraybuffer";
    watchdog.expectAnswer(HANDSHAKE_MS);
    mine.onopen = () => {
      watchdog.received();
      options.onState("open", 0);
    };
    mine.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      failures = 0;
      hasReceived = true;
      watchdog.received();
      if (typeof data === "string") options.onMessage(data);
      else options.onBytes?.(new Uint8Array(data));
    };
    mine.onclose = (event) => lose(event.code);
  }

  function lose(code: number): void {
    // A session that was accepted before may have a new cookie since.
    const isOldCookie = code === SIGNED_OUT && hasReceived;
    window.clearTimeout(retry);
    drop();
    if (closed) return;
    if (isOldCookie) return open();
    if (FINAL.has(code) || options.final?.includes(code)) {
      closed = true;
      options.onState("ended", code);
      return;
    }
    options.onState("lost", code);
    retry = window.setTimeout(open, pause(failures));
    failures += 1;
  }

  /** Close the socket and ignore its events. */
  function drop(): void {
    watchdog.stop();
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    socket = null;
  }

  function send(message: object): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    watchdog.sent();
    return true;
  }

  function sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(bytes);
    watchdog.sent();
    return true;
  }

  const isDown = (): boolean => socket?.readyState !== WebSocket.OPEN;
  /** After sleep or a network change, an open socket may be dead. */
  const checkNow = (): void => (isDown() ? open() : watchdog.ping());
  const onOnline = (): void => {
    failures = 0;
    checkNow();
  };
  const onOffline = (): void => lose(0);
  const onVisible = (): void => {
    if (document.visibilityState === "visible") checkNow();
  };

  window.addEventListener("online", onOnline);
  window.addEventListener("offline", onOffline);
  document.addEventListener("visibilitychange", onVisible);
  open();
  return {
    send,
    sendBytes,
    resync: open,
    close: () => {
      closed = true;
      window.clearTimeout(retry);
      window.removeEventListener("online", onOnline);
      window.removeEventListener("offline", onOffline);
      document.removeEventListener("visibilitychange", onVisible);
      drop();
    },
  };
}

function addressOf(path: string): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
}

/** Exponential backoff with an upper limit and jitter. */
export function pause(failures: number, chance: () => number = Math.random): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  return longest * (0.5 + chance() / 2);
}

// --- Watchdog: pings a silent connection and gives it up if no response arrives in time

/** Silence after which the server is pinged, and the time it has to respond. */
export const QUIET_MS = 25_000;
export const ANSWER_MS = 10_000;
/** After sending, ping sooner: a silently broken connection swallows messages. */
export const PROMPT_MS = 2_000;

export interface Watchdog {
  /** The server sent something. */
  received(): void;
  /** Something was sent to the server. */
  sent(): void;
  /** Ping now unless a response is pending. */
  ping(): void;
  /** Give up after this time unless the server responds. */
  expectAnswer(ms: number): void;
  stop(): void;
}

export function createWatchdog(connection: { ping: () => void; giveUp: () => void }): Watchdog {
  let timer: number | undefined;
  let state: "quiet" | "prompt" | "asked" = "asked";

  function wait(ms: number, then: () => void): void {
    window.clearTimeout(timer);
    timer = window.setTimeout(then, ms);
  }
  function expectAnswer(ms: number): void {
    state = "asked";
    wait(ms, connection.giveUp);
  }
  function ping(): void {
    if (state === "asked") return;
    connection.ping();
    expectAnswer(ANSWER_MS);
  }
  return {
    received: () => {
      state = "quiet";
      wait(QUIET_MS, ping);
    },
    sent: () => {
      if (state !== "quiet") return;
      state = "prompt";
      wait(PROMPT_MS, ping);
    },
    ping,
    expectAnswer,
    stop: () => window.clearTimeout(timer),
  };
}

// --- Shared notification sockets: one per path and page, however many subscribers
// A late subscriber receives the last message.

type Listener = (text: string) => void;

interface SharedSocket {
  link: Link;
  listeners: Set<Listener>;
  last: string | null;
}

const shared = new Map<string, SharedSocket>();

/** Subscribe to the socket at `path`; returns the function that unsubscribes. */
export function subscribe(path: string, onMessage: Listener): () => void {
  const socket = shared.get(path) ?? openShared(path);
  // A new function, as the same listener may subscribe twice.
  const listener: Listener = (text) => onMessage(text);
  socket.listeners.add(listener);
  // Deliver later, so that subscribing never calls back synchronously.
  queueMicrotask(() => {
    if (socket.last !== null && socket.listeners.has(listener)) listener(socket.last);
  });
  return () => {
    if (!socket.listeners.delete(listener) || socket.listeners.size) return;
    shared.delete(path);
    socket.link.close();
  };
}

function openShared(path: string): SharedSocket {
  const listeners = new Set<Listener>();
  const link = connect({
    path: () => path,
    onMessage: (text) => {
      if (isPong(text)) return;
      socket.last = text;
      for (const listener of [...listeners]) listener(text);
    },
    onState: () => undefined,
  });
  const socket: SharedSocket = { link, listeners, last: null };
  shared.set(path, socket);
  return socket;
}

function isPong(text: string): boolean {
  return (JSON.parse(text) as { type?: unknown }).type === "pong";
}
