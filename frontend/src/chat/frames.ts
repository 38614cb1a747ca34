/** Frames of a session's socket. */
import type { Json } from "../lib/rest.ts";

/** An event as in REST, and as `metadata.event` of a frame. */
export interface StoredEvent {
  id: string;
  seq: number;
  type: string;
  payload: Json;
}

interface Metadata extends Json {
  event_id?: string;
  event_type?: string;
  run_id?: string | null;
  event?: StoredEvent;
}

export interface Frame {
  type: "lifecycle" | "assistant" | "tool" | "error";
  phase?: "start" | "end" | "error";
  content?: string;
  tool_output?: unknown;
  error?: string;
  metadata: Metadata;
  seq: number | null;
}

/** Messages that can arrive on the socket. */
type Incoming =
  | { kind: "frame"; frame: Frame }
  | { kind: "ack"; id: string; seq: number }
  | { kind: "refusal"; id: string | null; code: string; reason: string }
  | { kind: "queue" }
  | { kind: "pong" };

/** Parse a socket message; null if it is not a known one. */
export function read(text: string): Incoming | null {
  let body: Json;
  try {
    body = JSON.parse(text) as Json;
  } catch {
    return null;
  }
  switch (body["type"]) {
    case "ack":
      return { kind: "ack", id: String(body["id"]), seq: Number(body["seq"]) };
    case "pong":
      return { kind: "pong" };
    case "queue":
      return { kind: "queue" };
    case "error":
      if ("id" in body) {
        const id = body["id"] === null ? null : String(body["id"]);
        return { kind: "refusal", id, code: textOf(body["code"]), reason: textOf(body["error"]) };
      }
      return { kind: "frame", frame: body as unknown as Frame };
    case "lifecycle":
    case "assistant":
    case "tool":
      return { kind: "frame", frame: body as unknown as Frame };
    default:
      return null;
  }
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
