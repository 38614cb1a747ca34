/** Debounces requests and shows only the response to the latest one. */

const REST_MS = 250;

export interface Asking {
  /** Ask after a pause. */
  soon(): void;
  now(): Promise<void>;
  stop(): void;
}

/** A failed request shows nothing; saving asks the server again anyway. */
export function latestQuery<T>(
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
      // Keep what is shown.
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
      asked += 1; // ignore responses still on their way
    },
  };
}
