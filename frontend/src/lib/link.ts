/**
 * A socket that comes back: it resumes after the last stored frame, so nothing is lost or doubled.
 *
 * A handshake that takes too long is given up, retries back off with jitter, and the browser's own
 * news (online, visible again) makes one at once.
 */

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
/** After so much silence the server is asked whether it is there, and must answer in time. */
export const QUIET_MS = 25_000;
export const ANSWER_MS = 10_000;
/** Codes after which trying again would change nothing: no identity, no right, no session. */
const FINAL = new Set([4401, 4403, 4404]);
const SUBPROTOCOL = "switchyard.v1";

export function connect(options: LinkOptions): Link {
  let socket: WebSocket | null = null;
  let failures = 0;
  let closed = false;
  let retry: number | undefined;
  let watchdog: number | undefined;

  function open(): void {
    window.clearTimeout(retry);
    drop();
    if (closed) return;
    options.onState("connecting", 0);
    const mine = new WebSocket(addressOf(options.path()), SUBPROTOCOL);
    socket = mine;
    mine.binaryType = "arraybuffer";
    watch(HANDSHAKE_MS);
    mine.onopen = () => {
      options.onState("open", 0);
      listen();
    };
    mine.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      failures = 0;
      listen();
      if (typeof data === "string") options.onMessage(data);
      else options.onBytes?.(new Uint8Array(data));
    };
    mine.onclose = (event) => lose(event.code);
  }

  /** Any word from the server proves that the line holds. */
  function listen(): void {
    window.clearTimeout(watchdog);
    watchdog = window.setTimeout(() => {
      send({ type: "ping" });
      watch(ANSWER_MS);
    }, QUIET_MS);
  }

  function watch(ms: number): void {
    window.clearTimeout(watchdog);
    watchdog = window.setTimeout(() => lose(0), ms);
  }

  function lose(code: number): void {
    drop();
    if (closed) return;
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
    window.clearTimeout(watchdog);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    socket = null;
  }

  function send(message: object): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    return true;
  }

  function sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (socket?.readyState !== WebSocket.OPEN) return false;
    socket.send(bytes);
    return true;
  }

  const isDown = (): boolean => socket?.readyState !== WebSocket.OPEN;
  const onOnline = (): void => {
    failures = 0;
    if (isDown()) open();
  };
  const onOffline = (): void => lose(0);
  const onVisible = (): void => {
    if (document.visibilityState === "visible" && isDown()) open();
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
