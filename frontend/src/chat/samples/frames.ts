/** Frames as the server sends them, for tests. */
import type { Json } from "../../lib/rest.ts";
import type { Frame } from "../frames.ts";

const AT = "2026-11-16T09:30:00Z";

export function delta(eventId: string, offset: number, content: string, runId = "run-1"): Frame {
  return {
    type: "assistant",
    content,
    metadata: { event_id: eventId, event_type: "agent.message", run_id: runId, offset },
    seq: null,
  };
}

export function thought(eventId: string, offset: number, content: string): Frame {
  const { metadata, ...frame } = delta(eventId, offset, content);
  return { ...frame, metadata: { ...metadata, event_type: "agent.thinking", kind: "thinking" } };
}

/** Output of a running call. */
export function output(toolUseId: string, offset: number, text: string): Frame {
  return {
    type: "tool",
    tool_output: text,
    metadata: { run_id: "run-1", tool_use_id: toolUseId, offset },
    seq: null,
  };
}

export function answer(seq: number, text: string, more: Json = {}): Frame {
  return {
    type: "assistant",
    content: text,
    metadata: {
      event_id: `e${seq}`,
      event_type: "agent.message",
      run_id: "run-1",
      created_at: AT,
      ...more,
    },
    seq,
  };
}

/** An event without a specific frame type. */
export function event(seq: number, type: string, payload: Json, more: Json = {}): Frame {
  return {
    type: "lifecycle",
    metadata: {
      event_id: `e${seq}`,
      event_type: type,
      created_at: AT,
      event: {
        id: `e${seq}`,
        seq,
        type,
        payload,
        ...more,
      },
    },
    seq,
  };
}

export function message(seq: number, text: string, more: Json = {}): Frame {
  return event(seq, "user.message", { text, attachments: [] }, more);
}

export function start(seq: number, runId = "run-1", reason = "message"): Frame {
  return {
    type: "lifecycle",
    phase: "start",
    metadata: {
      event_id: `e${seq}`,
      event_type: "session.status_changed",
      run_id: runId,
      created_at: AT,
      to: "running",
      reason,
    },
    seq,
  };
}

export function end(seq: number, runId = "run-1", reason = "end_turn"): Frame {
  return {
    type: "lifecycle",
    phase: "end",
    metadata: {
      event_id: `e${seq}`,
      event_type: "session.status_idle",
      run_id: runId,
      created_at: AT,
      stop_reason: reason,
      blocking: [],
    },
    seq,
  };
}

export function use(seq: number, callId: string, decision = "allow"): Frame {
  return {
    type: "tool",
    metadata: {
      event_id: `e${seq}`,
      event_type: "agent.tool_use",
      run_id: "run-1",
      created_at: AT,
      tool_use_id: callId,
      decision,
      decided_by: "default: exec asks first",
    },
    seq,
  };
}

export function result(seq: number, callId: string, more: Partial<Frame> = {}): Frame {
  return {
    type: "tool",
    tool_output: "hello\n",
    ...more,
    metadata: {
      event_id: `e${seq}`,
      event_type: "agent.tool_result",
      run_id: "run-1",
      created_at: AT,
      tool_use_id: callId,
      duration_ms: 340,
      ...more.metadata,
    },
    seq,
  };
}

export function failure(seq: number, retryable = true): Frame {
  return {
    type: "error",
    phase: "error",
    error: "The model refused.",
    metadata: {
      event_id: `e${seq}`,
      event_type: "session.error",
      run_id: "run-1",
      created_at: AT,
      code: "provider_rejected",
      retryable,
    },
    seq,
  };
}
