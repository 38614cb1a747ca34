/** Ties a screen to a terminal's socket: bytes both ways, sizes, and what stands beside the screen. */
import { connect, type LinkState } from "../lib/link.ts";

export interface Size {
  cols: number;
  rows: number;
}

/** What is shown and typed on; xterm in the browser. */
export interface Screen {
  size(): Size;
  /** Shows what the shell wrote; `done` when it is on the screen. */
  write(bytes: Uint8Array, done?: () => void): void;
  /** Empties the screen, as its past follows. */
  reset(): void;
  /** Takes the size of somebody else's screen. */
  resize(size: Size): void;
  /** Fills the room there is. */
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

/** The terminal is over: nothing to come back to. */
const OVER = 4410;

/** Keeps the screen live until it is let go, coming back by itself after a break. */
export function attach(screen: Screen, path: () => string, told: Told): () => void {
  let mayWrite = false;
  /** Bytes of the past that are still to come or to be shown. */
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
      const words = reason || (code === OVER ? "This terminal is over." : "");
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
    // A replayed question to the terminal must not be answered again into the shell.
    if (mayWrite && past === 0) link.sendBytes(bytes);
  });
  screen.onResize((size) => {
    if (mayWrite) link.send({ type: "resize", ...size });
  });
  return () => link.close();
}

function standingOf(state: LinkState, code: number): Standing | null {
  if (state === "ended") return code === OVER ? "over" : "refused";
  if (state === "lost") return "lost";
  return state === "connecting" ? "connecting" : null;
}
