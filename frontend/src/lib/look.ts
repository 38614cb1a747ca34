/** Reads a page of the server's again when something rang. */

import { fetchPage, NotShown } from "./part.ts";

/** Rings that come close together are one reason to look. */
const GATHER_MS = 60;
/** A look that the server failed to answer is repeated after so long. */
const RETRY_MS = 2_000;

export interface Looking {
  soon(): void;
  now(): Promise<void>;
  stop(): void;
}

/** One look at a time: whatever rings meanwhile is one more look after it. */
export function lookAt(address: () => string, show: (page: string) => void): Looking {
  let timer: number | undefined;
  let retry: number | undefined;
  let isLooking = false;
  let again = false;
  let stopped = false;

  function soon(): void {
    if (!stopped) timer ??= window.setTimeout(() => void now(), GATHER_MS);
  }

  async function now(): Promise<void> {
    clear();
    again = isLooking;
    if (isLooking) return;
    isLooking = true;
    const page = await read();
    isLooking = false;
    if (stopped) return;
    if (page !== null) show(page);
    if (again) soon();
  }

  /** The page, or nothing: the link that comes back brings a ring, and with it another look. */
  async function read(): Promise<string | null> {
    try {
      return await fetchPage(address());
    } catch (fault) {
      const isPassing = fault instanceof NotShown && fault.status >= 500;
      if (isPassing && !stopped) retry = window.setTimeout(soon, RETRY_MS);
      return null;
    }
  }

  function clear(): void {
    window.clearTimeout(timer);
    window.clearTimeout(retry);
    timer = retry = undefined;
  }

  return {
    soon,
    now,
    stop: () => {
      stopped = true;
      clear();
    },
  };
}
