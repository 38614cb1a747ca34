/** A client of the REST API with the browser's session. */

/** An error response with a message for people. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  /** The whole response, such as the newer version that a stale save lost to. */
  readonly body: Json;

  constructor(message: string, status: number, code = "", body: Json = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

export interface Rest {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: Json, key?: string): Promise<T>;
  put<T>(path: string, body: Json): Promise<T>;
  patch<T>(path: string, body: Json): Promise<T>;
  remove(path: string): Promise<void>;
}

/** Shown when no response arrives. */
const UNREACHABLE = "Can't reach the server. Try again in a moment.";
/** A silently broken connection would otherwise hang for minutes. */
const TIMEOUT_MS = 30_000;

/** Return a client that sends the page's CSRF token. Paths are absolute. */
export function restWith(token: string): Rest {
  async function call<T>(method: string, path: string, body?: Json, key?: string): Promise<T> {
    const headers: Record<string, string> = { Accept: "application/json", "X-CSRFToken": token };
    if (body) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    const answer = await reached(
      fetch(path, {
        method,
        headers,
        credentials: "same-origin",
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    );
    const said = await reached(answer.text());
    if (!answer.ok) throw refusalOf(answer.status, said);
    return (said ? JSON.parse(said) : undefined) as T;
  }
  return {
    get: (path) => call("GET", path),
    post: (path, body, key) => call("POST", path, body, key),
    put: (path, body) => call("PUT", path, body),
    patch: (path, body) => call("PATCH", path, body),
    remove: (path) => call("DELETE", path),
  };
}

/** Replace the browser's "Failed to fetch" with a helpful message. */
export async function reached<T>(response: Promise<T>): Promise<T> {
  try {
    return await response;
  } catch {
    throw new Error(UNREACHABLE);
  }
}

/** Turn an error response into an error with a message for people. */
export function refusalOf(status: number, said: string): Refused {
  const body = problemIn(said);
  const { detail, title, code } = body;
  const words = PAGE_MESSAGES[status === 401 ? "unauthenticated" : (code ?? "")];
  return new Refused(words ?? (detail || title || `Something went wrong (error ${status}). Try again in a moment.`), status, code, body);
}

/** Messages that differ from those for API clients. */
const PAGE_MESSAGES: Record<string, string> = {
  unauthenticated: "You're signed out. Reload the page to sign in again.",
  csrf_failed: "This page is out of date. Reload it and try again.",
};

function problemIn(said: string): Json & { detail?: string; title?: string; code?: string } {
  try {
    return (JSON.parse(said) ?? {}) as Json & { detail?: string; title?: string; code?: string };
  } catch {
    return {};
  }
}

/** Return a random id. `randomUUID` exists only on https and localhost. */
export function newId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A JSON object of unknown shape. */
export type Json = Record<string, unknown>;
