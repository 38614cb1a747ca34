/** Reads pages and pieces of pages that our own server wrote, and escaped. */

interface Asking {
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** The page at this address. Whoever is sent elsewhere is signed out: that page is not what was asked for. */
export async function fetchPage(address: string, options: Asking = {}): Promise<string> {
  const answer = await fetch(address, { credentials: "same-origin", ...options });
  if (!answer.ok || answer.redirected) throw new NotShown(answer.status);
  return answer.text();
}

/** The same, as elements. */
export async function fetchPart(address: string, options: Asking = {}): Promise<Document> {
  return new DOMParser().parseFromString(await fetchPage(address, options), "text/html");
}

/** An answer that is not the page. */
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
