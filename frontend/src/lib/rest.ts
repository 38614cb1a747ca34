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

/** Calls with the page's CSRF token. Paths are whole. */
export function restWith(token: string): Rest {
  async function call<T>(method: string, path: string, body?: Json, key?: string): Promise<T> {
    const headers: Record<string, string> = { Accept: "application/json", "X-CSRFToken": token };
    if (body) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    const answer = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!answer.ok) throw await refusal(answer);
    return (answer.status === 204 ? undefined : await answer.json()) as T;
  }
  return {
    get: (path) => call("GET", path),
    post: (path, body, key) => call("POST", path, body, key),
    patch: (path, body) => call("PATCH", path, body),
    remove: (path) => call("DELETE", path),
  };
}

/** The problem document of an answer, as far as it has one. */
async function refusal(answer: Response): Promise<Refused> {
  const plain = `The server answered ${answer.status}.`;
  try {
    const problem = (await answer.json()) as { detail?: string; title?: string; code?: string };
    return new Refused(problem.detail || problem.title || plain, answer.status, problem.code);
  } catch {
    return new Refused(plain, answer.status);
  }
}

/** An id for something that is sent. `randomUUID` exists only on https and localhost. */
export function newId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
