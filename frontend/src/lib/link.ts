/**
 * A socket that comes back: it resumes after the last stored frame, so nothing is lost or doubled.
 *
 * A handshake that takes too long is given up, retries back off with jitter, and the browser's own
 * news (online, visible again) makes one at once.
 */

import { watchOver } from "./watchdog.ts";

export type LinkState = "connecting" | "open" | "lost" | "ended";

interface LinkOptions {
  /** The path on this server, made anew each time, as the cursor moves. */
  path: () => string;
  onMessage: (text: string) => void;
  /** For sockets that carry bytes beside words. */
  onBytes?: (bytes: Uint8Array) => void;
  /** More codes after which trying again would change nothing. */
  final?: readonly number[];
  /** `code` says why it ended, when it ended for good. */
  onState: (state: LinkState, code: number) => void;
}

export interface Link {
  /** Says whether it could be handed to the socket. */
  send(message: object): boolean;
  sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean;
  /** Connect again at once: frames are missing. */
  resync(): void;
  close(): void;
}

export const HANDSHAKE_MS = 10_000;
export const FIRST_PAUSE_MS = 1_000;
export const LONGEST_PAUSE_MS = 30_000;
const NOBODY = 4401;
/** Codes after which trying again would change nothing: no identity, no right, no session. */
const FINAL = new Set([NOBODY, 4403, 4404]);
const SUBPROTOCOL = "switchyard.v1";

export function connect(options: LinkOptions): Link {
  let socket: WebSocket | null = null;
  let failures = 0;
  let closed = false;
  let retry: number | undefined;
  /** The server has spoken on this socket. */
  let heard = false;
  const watchdog = watchOver({
    ask: () => socket?.send(JSON.stringify({ type: "ping" })),
    giveUp: () => lose(0),
  });

  function open(): void {
    window.clearTimeout(retry);
    drop();
    if (closed) return;
    heard = false;
    options.onState("connecting", 0);
    const mine = new WebSocket(addressOf(options.path()), SUBPROTOCOL);
    socket = mine;
    mine.binaryType = "arraybuffer";
    watchdog.give(HANDSHAKE_MS);
    mine.onopen = () => {
      watchdog.heard();
      options.onState("open", 0);
    };
    mine.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      failures = 0;
      heard = true;
      watchdog.heard();
      if (typeof data === "string") options.onMessage(data);
      else options.onBytes?.(new Uint8Array(data));
    };
    mine.onclose = (event) => lose(event.code);
  }

  function lose(code: number): void {
    // Whoever was let in before may have another cookie since: signed in again, a new password.
    const isOldCookie = code === NOBODY && heard;
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

  /** Lets go of the socket without hearing from it again. */
  function drop(): void {
    watchdog.rest();
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    socket = null;
  }

  function send(message: object): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    watchdog.said();
    return true;
  }

  function sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(bytes);
    watchdog.said();
    return true;
  }

  const isDown = (): boolean => socket?.readyState !== WebSocket.OPEN;
  /** A machine that slept, or is in another network now, may hold a socket that is open in name only. */
  const look = (): void => (isDown() ? open() : watchdog.ask());
  const onOnline = (): void => {
    failures = 0;
    look();
  };
  const onOffline = (): void => lose(0);
  const onVisible = (): void => {
    if (document.visibilityState === "visible") look();
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

/** Twice as long each time, up to a bound, and never the same for two browsers. */
export function pause(failures: number, chance: () => number = Math.random): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  return longest * (0.5 + chance() / 2);
}
