/** Sub-agents: what the log of their parent says of them, and what the server counts. */
import { blankCall } from "./calls.ts";
import { textOf, type StoredEvent } from "./frames.ts";
import { change, insert, isCall, type Child, type ChildState, type Item } from "./items.ts";
import type { State } from "./state.ts";

/** A session below this one, as `tree/` lists it. */
export interface Branch {
  id: string;
  title: string;
  agent_name: string;
  task_status: ChildState | null;
  input_tokens: number;
  output_tokens: number;
  cost: string;
  pending_approvals: number;
}

/** A child was made, or has ended: the call that made it becomes its card. */
export function takeChild(state: State, event: StoredEvent): State {
  const { payload } = event;
  const key = textOf(payload["tool_use_id"]) || event.id;
  const known = state.items.find((item) => item.key === key);
  if (known && isCall(known)) {
    const child = counted(advanced(known.child, event), state.branches);
    const items = state.items.map((item) => (item === known ? { ...known, child } : item));
    return { ...state, items };
  }
  const call = blankCall(key, event.seq, event.created_at, "sessions_spawn");
  const child = counted(advanced(null, event), state.branches);
  // The call stands before the part of the log that is known; only its end is here.
  const result = child.state === "running" ? null : ("completed" as const);
  return { ...state, items: insert(state.items, { ...call, child, result }) };
}

function advanced(known: Child | null, event: StoredEvent): Child {
  const { payload } = event;
  const child: Child = known ?? {
    sessionId: textOf(payload["child_session_id"]),
    title: textOf(payload["title"]),
    task: textOf(payload["task"]),
    state: "running",
    result: "",
    agent: "",
    tokens: 0,
    cost: 0,
    asks: 0,
  };
  if (event.type !== "session.child_idle") return child;
  const ended = (textOf(payload["status"]) || "completed") as ChildState;
  return { ...child, state: ended, result: textOf(payload["result"]), asks: 0 };
}

/** What the server knows of all sessions below, put on their cards. */
export function takeBranches(state: State, branches: readonly Branch[]): State {
  const items = change(state.items, isCall, (call) =>
    call.child ? { ...call, child: counted(call.child, branches) } : call,
  );
  return { ...state, items, branches };
}

function counted(child: Child, branches: readonly Branch[]): Child {
  const found = branches.find((one) => one.id === child.sessionId);
  if (!found) return child;
  return {
    ...child,
    agent: found.agent_name,
    tokens: found.input_tokens + found.output_tokens,
    cost: Number(found.cost),
    asks: child.state === "running" ? found.pending_approvals : 0,
  };
}

export function childrenOf(items: readonly Item[]): Child[] {
  return items.filter(isCall).flatMap((call) => (call.child ? [call.child] : []));
}
