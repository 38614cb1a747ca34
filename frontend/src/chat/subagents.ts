/** Tracks sub-agents and renders their cards. */
import { button, h, icon, say } from "../lib/dom.ts";
import { type Asking, latestQuery } from "../lib/latest-query.ts";
import type { Json, Rest } from "../lib/rest.ts";
import { subscribe } from "../lib/socket.ts";
import { blankCall } from "./calls.ts";
import { type StoredEvent, textOf } from "./frames.ts";
import type { ChatHost, Said } from "./host.ts";
import { money, thousands } from "./labels.ts";
import type { Line } from "./renderer.ts";
import {
  type Action,
  type CallItem,
  change,
  type Child,
  type ChildState,
  insert,
  isCall,
  type Item,
  type QuestionItem,
  type State,
} from "./state.ts";
import { StreamingText } from "./streaming.ts";
import type { Bootstrap } from "./transcript.ts";

/** A sub-agent session, as `tree/` lists it. */
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

/** Turn the call that started a sub-agent into its card, and update it when the sub-agent ends. */
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
  // The call is before the loaded part of the log; only its end is known.
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

/** Update all cards with the server's counts. */
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

// --- Watching sub-agents: their counts and pending approvals
// Nothing is polled. While a sub-agent is running, the approvals socket reports new requests.

interface Asked {
  id: string;
  session_id: string;
  session_title: string;
  agent_name: string;
  tool: string | null;
  input: Json;
  reason: string;
  created_at: string;
}

interface Told {
  branches: Branch[];
  asked: Asked[];
}

interface SubagentWatcherOptions {
  bootstrap: Bootstrap;
  rest: Rest;
  dispatch: (action: Action) => void;
}

const PAUSE_MS = 150;

export class SubagentWatcher {
  private seen = "";
  private bell: (() => void) | null = null;
  private readonly options: SubagentWatcherOptions;
  private readonly asking: Asking;

  constructor(options: SubagentWatcherOptions) {
    this.options = options;
    this.asking = latestQuery(
      () => this.ask(),
      (told) => this.tell(told),
      PAUSE_MS,
    );
  }

  /** Fetch again when a sub-agent started or ended, and subscribe while one is running. */
  follow(state: State): void {
    const children = childrenOf(state.items);
    const now = children.map((child) => child.sessionId + child.state).join();
    if (now === this.seen) return;
    this.seen = now;
    if (children.some((child) => child.state === "running")) this.listen();
    else this.unlisten();
    this.asking.soon();
  }

  async answer(approvalId: string, said: Said): Promise<void> {
    await this.options.rest.post(`${this.options.bootstrap.approvals}${approvalId}/`, { ...said });
    this.asking.soon();
  }

  close(): void {
    this.asking.stop();
    this.unlisten();
  }

  private listen(): void {
    this.bell ??= subscribe("/ws/approvals/", () => this.asking.soon());
  }

  private unlisten(): void {
    this.bell?.();
    this.bell = null;
  }

  private async ask(): Promise<Told> {
    const { bootstrap, rest } = this.options;
    const asked = `${bootstrap.approvals}?status=pending&tree=1&session=${bootstrap.session_id}`;
    const [tree, questions] = await Promise.all([
      rest.get<{ results: Branch[] }>(`${bootstrap.api}tree/`),
      this.bell ? rest.get<{ results: Asked[] }>(asked) : { results: [] },
    ]);
    return { branches: tree.results, asked: questions.results };
  }

  private tell({ branches, asked }: Told): void {
    const { bootstrap, dispatch } = this.options;
    dispatch({ type: "branches", branches });
    const below = asked.filter((one) => one.session_id !== bootstrap.session_id);
    dispatch({ type: "questions", questions: below.toReversed().map(questionOf) });
  }
}

function questionOf(asked: Asked): QuestionItem {
  const call = blankCall(`asked-${asked.id}`, null, asked.created_at, asked.tool ?? "tool");
  return {
    kind: "question",
    key: `asked-${asked.id}`,
    order: Infinity,
    seq: null,
    at: asked.created_at,
    approvalId: asked.id,
    sessionId: asked.session_id,
    sessionTitle: asked.session_title,
    agent: asked.agent_name,
    call: {
      ...call,
      input: asked.input,
      decision: "ask",
      decidedBy: asked.reason,
      state: "awaiting_approval",
    },
  };
}

// --- The card of a sub-agent

const STATES: Record<ChildState, [lamp: string, word: string]> = {
  running: ["is-running", "At work"],
  completed: ["is-done", "Done"],
  failed: ["is-failed", "Failed"],
  cancelled: ["", "Stopped"],
};

export function childCard(first: CallItem, host: ChatHost): Line {
  const id = `child-${first.key}`;
  const lamp = h("span", { class: "state" });
  const title = h("h3", { id: `${id}-title` });
  const agent = h("span", { class: "tag" });
  const task = h("p", { class: "child-task" });
  const said = h("div", { class: "said" });
  const result = h("details", { class: "child-result" }, h("summary", {}, h("span", { text: "Result" }), icon("chevron-right")), said);
  const facts = h("span", { class: "child-facts" });
  const asks = h("a", { class: "state is-waiting child-asks" });
  const open = h("a", { class: "link-text", text: "Open chat" });
  const look = button("Preview", () => host.openPreview(child), {
    class: "btn btn-sm btn-quiet",
    title: "Follow it next to this chat",
  });
  const card = h(
    "section",
    { class: "child", "aria-labelledby": title.id },
    h("header", { class: "child-head" }, icon("bot"), title, agent, lamp),
    task,
    result,
    h("footer", { class: "child-end" }, facts, asks, open, look),
  );
  const text = new StreamingText(said);
  let child = first.child!;

  function update(item: Item): void {
    if (item.kind !== "call" || !item.child) return;
    child = item.child;
    const [light, word] = STATES[child.state];
    card.dataset["state"] = child.state;
    lamp.className = `state ${light}`;
    say(lamp, word);
    say(title, child.title || "Sub-agent");
    say(agent, child.agent);
    agent.hidden = !child.agent;
    say(task, child.task);
    // A title that equals the task isn't repeated.
    task.hidden = !child.task || child.task === child.title;
    if (child.result) text.update(child.result);
    result.hidden = !child.result;
    say(facts, factsOf(child));
    say(asks, child.asks === 1 ? "Needs approval" : `${child.asks} calls need approval`);
    asks.hidden = child.asks === 0;
    for (const link of [asks, open]) link.href = `/chat/${child.sessionId}/`;
  }
  update(first);
  // Failures are shown without a click.
  result.open = child.state === "failed";
  return { node: h("li", { class: "line is-child" }, card), update };
}

function factsOf(child: Child): string {
  if (!child.tokens) return "";
  return [`${thousands(child.tokens)} tokens`, money(child.cost)].filter(Boolean).join(" · ");
}
