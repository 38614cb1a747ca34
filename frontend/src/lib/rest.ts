/** The REST doors of this server, with the browser's own identity. */
import type { Json } from "./json.ts";

/** An answer that says no, in words for a person. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(message: string, status: number, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Rest {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: Json, key?: string): Promise<T>;
  patch<T>(path: string, body: Json): Promise<T>;
  remove(path: string): Promise<void>;
}

/** What a person is told when no answer comes. */
const OUT_OF_REACH = "The server is out of reach. Try again in a moment.";
/** A line that broke in silence would be waited for by the minute. */
const LONGEST_MS = 30_000;

/** Calls with the page's CSRF token. Paths are whole. */
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
        signal: AbortSignal.timeout(LONGEST_MS),
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
    patch: (path, body) => call("PATCH", path, body),
    remove: (path) => call("DELETE", path),
  };
}

/** Browsers say "Failed to fetch", which tells nobody what to do. */
export async function reached<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch {
    throw new Error(OUT_OF_REACH);
  }
}

/** The problem document of an answer, as far as it has one, in words for whoever looks at the page. */
export function refusalOf(status: number, said: string): Refused {
  const { detail, title, code } = problemIn(said);
  const words = PAGE_WORDS[status === 401 ? "unauthenticated" : (code ?? "")];
  return new Refused(words ?? (detail || title || `The server answered ${status}. Try again in a moment.`), status, code);
}

/** What is said to programs otherwise. */
const PAGE_WORDS: Record<string, string> = {
  unauthenticated: "You are signed out. Reload the page to sign in again.",
  csrf_failed: "This page is too old. Reload it and try again.",
};

function problemIn(said: string): { detail?: string; title?: string; code?: string } {
  try {
    return (JSON.parse(said) ?? {}) as { detail?: string; title?: string; code?: string };
  } catch {
    return {};
  }
}

/** An id for something that is sent. `randomUUID` exists only on https and localhost. */
export function newId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
