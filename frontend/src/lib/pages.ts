/** Fetches pages and fragments rendered by our own server. */

interface FetchOptions {
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Fetch a page. A redirect means that the person was signed out, so it counts as a failure. */
export async function fetchPage(address: string, options: FetchOptions = {}): Promise<string> {
  const answer = await fetch(address, { credentials: "same-origin", ...options });
  if (!answer.ok || answer.redirected) throw new NotShown(answer.status);
  return answer.text();
}

/** Fetch a page as a document. */
export async function fetchPart(address: string, options: FetchOptions = {}): Promise<Document> {
  return new DOMParser().parseFromString(await fetchPage(address, options), "text/html");
}

/** The response is not the requested page. */
export class NotShown extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`The server answered ${status}.`);
    this.status = status;
  }
}

export function isAbort(fault: unknown): boolean {
  return fault instanceof DOMException && fault.name === "AbortError";
}

// --- Refreshing after a notification


/** Notifications within this time cause one fetch. */
const GATHER_MS = 60;
/** Delay before repeating a failed fetch. */
const RETRY_MS = 2_000;

export interface Refresher {
  soon(): void;
  now(): Promise<void>;
  stop(): void;
}

/** Fetch a page again, one request at a time; notifications meanwhile cause one more. */
export function refresher(
  address: () => string,
  show: (page: string) => void,
  gatherMs = GATHER_MS,
): Refresher {
  let timer: number | undefined;
  let retry: number | undefined;
  let isFetching = false;
  let again = false;
  let stopped = false;

  function soon(): void {
    if (!stopped) timer ??= window.setTimeout(() => void now(), gatherMs);
  }

  async function now(): Promise<void> {
    clear();
    again = isFetching;
    if (isFetching) return;
    isFetching = true;
    const page = await read();
    isFetching = false;
    if (stopped) return;
    if (page !== null) show(page);
    if (again) soon();
  }

  /** Fetch the page or return null. What may pass is tried again. */
  async function read(): Promise<string | null> {
    try {
      return await fetchPage(address());
    } catch (fault) {
      const isTemporary = !(fault instanceof NotShown) || fault.status >= 500;
      if (isTemporary && !stopped) retry = window.setTimeout(soon, RETRY_MS);
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
