/** Frames of a session's socket, and stored events from REST in the same shape. */
import type { Json } from "../lib/rest.ts";

export type CallState =
  | "pending"
  | "awaiting_approval"
  | "running"
  | "completed"
  | "error"
  | "denied"
  | "cancelled"
  | "unknown";

/** An event as in REST, and as `metadata.event` of a frame. */
export interface StoredEvent {
  id: string;
  seq: number;
  type: string;
  payload: Json;
  run_id: string | null;
  created_at: string;
  processed_at: string | null;
  processed_run_id?: string | null;
  /** Name of the author. */
  author?: string;
}

interface Metadata extends Json {
  event_id?: string;
  event_type?: string;
  run_id?: string | null;
  created_at?: string;
  author?: string;
  event?: StoredEvent;
}

export interface Frame {
  type: "lifecycle" | "assistant" | "tool" | "error";
  phase?: "start" | "end" | "error";
  content?: string;
  tool_name?: string;
  tool_state?: CallState;
  tool_input?: Json;
  tool_output?: unknown;
  error?: string;
  metadata: Metadata;
  seq: number | null;
}

/** Messages that can arrive on the socket. */
type Incoming =
  | { kind: "frame"; frame: Frame }
  | { kind: "ack"; id: string; seq: number; runId: string | null }
  | { kind: "refusal"; id: string | null; code: string; reason: string }
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
      return {
        kind: "ack",
        id: String(body["id"]),
        seq: Number(body["seq"]),
        runId: textOf(body["run_id"]) || null,
      };
    case "pong":
      return { kind: "pong" };
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

const DECISIONS: Record<string, CallState> = {
  allow: "pending",
  ask: "awaiting_approval",
  deny: "denied",
};

/** Return the frame that the socket would send for a stored event. */
export function frameOf(event: StoredEvent): Frame {
  const { payload } = event;
  const metadata: Metadata = {
    ...payload,
    run_id: event.run_id,
    event_id: event.id,
    event_type: event.type,
    created_at: event.created_at,
    ...(event.author ? { author: event.author } : {}),
  };
  const base = { metadata, seq: event.seq };
  const named = payload["name"] ? { tool_name: textOf(payload["name"]) } : {};
  switch (event.type) {
    case "agent.message":
      return { ...base, type: "assistant", content: textOf(payload["text"]) };
    case "agent.tool_use":
    case "agent.custom_tool_use":
      return {
        ...base,
        type: "tool",
        tool_name: textOf(payload["name"]),
        tool_state: DECISIONS[textOf(payload["decision"]) || "allow"] ?? "pending",
        tool_input: objectOf(payload["input"]),
      };
    case "agent.tool_result":
      return {
        ...base,
        type: "tool",
        tool_name: textOf(payload["name"]),
        tool_state: payload["state"] as CallState,
        tool_output: payload["output"],
        error: textOf(payload["error"]),
      };
    case "user.tool_confirmation":
      return {
        ...base,
        ...named,
        type: "tool",
        tool_state: payload["decision"] === "deny" ? "denied" : "pending",
        ...(payload["input"] ? { tool_input: objectOf(payload["input"]) } : {}),
      };
    case "user.custom_tool_result":
      return {
        ...base,
        ...named,
        type: "tool",
        tool_state: payload["is_error"] ? "error" : "completed",
        tool_output: payload["output"],
        ...(payload["is_error"] ? { error: outputWords(payload["output"]) } : {}),
      };
    case "session.error":
      return { ...base, type: "error", phase: "error", error: textOf(payload["message"]) };
    case "session.status_idle":
      return { ...base, type: "lifecycle", phase: "end" };
    case "session.status_changed":
      if (payload["to"] === "running") return { ...base, type: "lifecycle", phase: "start" };
      break;
  }
  return { ...base, type: "lifecycle", metadata: { ...metadata, event } };
}

function outputWords(output: unknown): string {
  return typeof output === "string" ? output : JSON.stringify(output);
}

export function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}
