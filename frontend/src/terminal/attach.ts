/** Connects a screen to a terminal's socket: bytes both ways, sizes and status. */
import { connect, type SocketState } from "../lib/socket.ts";

export interface Size {
  cols: number;
  rows: number;
}

/** The screen: xterm in the browser. */
export interface Screen {
  size(): Size;
  /** Show output; `done` is called when it is on the screen. */
  write(bytes: Uint8Array, done?: () => void): void;
  /** Clear the screen before a replay. */
  reset(): void;
  /** Adopt the size of another viewer's screen. */
  resize(size: Size): void;
  /** Fit the screen to its box. */
  fit(): void;
  onType(listener: (bytes: Uint8Array<ArrayBuffer>) => void): void;
  onResize(listener: (size: Size) => void): void;
}

export type TerminalState = "connecting" | "open" | "watching" | "lost" | "over" | "refused";

interface Callbacks {
  onState: (state: TerminalState, words: string) => void;
}

interface Ready extends Size {
  type: "ready";
  replay: number;
  write: boolean;
}
type Message =
  | Ready
  | ({ type: "resize" } & Size)
  | { type: "closed"; reason: string }
  | { type: "error"; error: string }
  | { type: "pong" };

/** The terminal is closed for good. */
const OVER = 4410;

/** Keep the screen connected, reconnecting after a break. Returns its clean-up. */
export function attach(screen: Screen, path: () => string, callbacks: Callbacks): () => void {
  let mayWrite = false;
  /** Replayed bytes still to arrive or to be shown. */
  let replayLeft = 0;
  let reason = "";

  const link = connect({
    path,
    final: [OVER],
    onMessage: (text) => handle(JSON.parse(text) as Message),
    onBytes: (bytes) => {
      const isReplay = replayLeft > 0;
      screen.write(bytes, () => {
        if (isReplay) replayLeft = Math.max(0, replayLeft - bytes.length);
      });
    },
    onState: (state, code) => {
      const words = reason || (code === OVER ? "This terminal is closed." : "");
      const shown = stateOf(state, code);
      if (shown) callbacks.onState(shown, words);
    },
  });

  function handle(message: Message): void {
    if (message.type === "ready") {
      mayWrite = message.write;
      replayLeft = message.replay;
      screen.reset();
      if (mayWrite) screen.fit();
      else screen.resize(message);
      callbacks.onState(mayWrite ? "open" : "watching", "");
      if (mayWrite) link.send({ type: "resize", ...screen.size() });
    } else if (message.type === "resize" && !mayWrite) screen.resize(message);
    else if (message.type === "closed") reason = message.reason;
  }

  screen.onType((bytes) => {
    // A replayed terminal query must not be answered into the shell again.
    if (mayWrite && replayLeft === 0) link.sendBytes(bytes);
  });
  screen.onResize((size) => {
    if (mayWrite) link.send({ type: "resize", ...size });
  });
  return () => link.close();
}

function stateOf(state: SocketState, code: number): TerminalState | null {
  if (state === "ended") return code === OVER ? "over" : "refused";
  if (state === "lost") return "lost";
  return state === "connecting" ? "connecting" : null;
}
