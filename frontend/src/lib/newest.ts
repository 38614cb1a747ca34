/** Asks the server about what changes often, and shows only the answer to the newest question. */

const REST_MS = 250;

export interface Asking {
  /** Once it rests. */
  soon(): void;
  now(): Promise<void>;
  stop(): void;
}

/** A question that fails shows nothing: the page goes on without, and saving asks the server again. */
export function newest<T>(
  ask: () => Promise<T>,
  show: (answer: T) => void,
  restMs = REST_MS,
): Asking {
  let timer: number | undefined;
  let asked = 0;

  async function now(): Promise<void> {
    asked += 1;
    const mine = asked;
    try {
      const answer = await ask();
      if (mine === asked) show(answer);
    } catch {
      // What was shown stays.
    }
  }

  return {
    soon: () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => void now(), restMs);
    },
    now,
    stop: () => {
      window.clearTimeout(timer);
      asked += 1; // what is still on its way comes too late
    },
  };
}
