/** Sees whether a line still holds: a silent one is asked, and given up when it does not answer in time. */

/** After so much silence the server is asked whether it is there, and must answer in time. */
export const QUIET_MS = 25_000;
export const ANSWER_MS = 10_000;
/** After something was said to it, it is asked much sooner: a line that broke in silence swallows words. */
export const PROMPT_MS = 2_000;

export interface Watchdog {
  /** The server spoke: the line holds. */
  heard(): void;
  /** Something was said to the server. */
  said(): void;
  /** Ask now, unless an answer is being waited for. */
  ask(): void;
  /** Give the line up after so long, unless the server speaks. */
  give(ms: number): void;
  rest(): void;
}

export function watchOver(line: { ask: () => void; giveUp: () => void }): Watchdog {
  let timer: number | undefined;
  let patience: "quiet" | "prompt" | "asked" = "asked";

  function wait(ms: number, then: () => void): void {
    window.clearTimeout(timer);
    timer = window.setTimeout(then, ms);
  }
  function give(ms: number): void {
    patience = "asked";
    wait(ms, line.giveUp);
  }
  function ask(): void {
    if (patience === "asked") return;
    line.ask();
    give(ANSWER_MS);
  }
  return {
    heard: () => {
      patience = "quiet";
      wait(QUIET_MS, ask);
    },
    said: () => {
      if (patience !== "quiet") return;
      patience = "prompt";
      wait(PROMPT_MS, ask);
    },
    ask,
    give,
    rest: () => window.clearTimeout(timer),
  };
}
