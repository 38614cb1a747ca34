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

export type Standing = "connecting" | "open" | "watching" | "lost" | "over" | "refused";

interface Told {
  standing: (standing: Standing, words: string) => void;
}

interface Ready extends Size {
  type: "ready";
  replay: number;
  write: boolean;
}
type Word =
  | Ready
  | ({ type: "resize" } & Size)
  | { type: "closed"; reason: string }
  | { type: "error"; error: string }
  | { type: "pong" };

/** The terminal is closed for good. */
const OVER = 4410;

/** Keep the screen connected, reconnecting after a break. Returns its clean-up. */
export function attach(screen: Screen, path: () => string, told: Told): () => void {
  let mayWrite = false;
  /** Replayed bytes still to arrive or to be shown. */
  let past = 0;
  let reason = "";

  const link = connect({
    path,
    final: [OVER],
    onMessage: (text) => hear(JSON.parse(text) as Word),
    onBytes: (bytes) => {
      const isPast = past > 0;
      screen.write(bytes, () => {
        if (isPast) past = Math.max(0, past - bytes.length);
      });
    },
    onState: (state, code) => {
      const words = reason || (code === OVER ? "This terminal is closed." : "");
      const standing = standingOf(state, code);
      if (standing) told.standing(standing, words);
    },
  });

  function hear(word: Word): void {
    if (word.type === "ready") {
      mayWrite = word.write;
      past = word.replay;
      screen.reset();
      if (mayWrite) screen.fit();
      else screen.resize(word);
      told.standing(mayWrite ? "open" : "watching", "");
      if (mayWrite) link.send({ type: "resize", ...screen.size() });
    } else if (word.type === "resize" && !mayWrite) screen.resize(word);
    else if (word.type === "closed") reason = word.reason;
  }

  screen.onType((bytes) => {
    // A replayed terminal query must not be answered into the shell again.
    if (mayWrite && past === 0) link.sendBytes(bytes);
  });
  screen.onResize((size) => {
    if (mayWrite) link.send({ type: "resize", ...size });
  });
  return () => link.close();
}

function standingOf(state: SocketState, code: number): Standing | null {
  if (state === "ended") return code === OVER ? "over" : "refused";
  if (state === "lost") return "lost";
  return state === "connecting" ? "connecting" : null;
}
