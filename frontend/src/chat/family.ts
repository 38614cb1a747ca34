/**
 * The sessions below this one: counted after something happened to them, and what they ask people.
 *
 * Nothing is asked at intervals. While a child is at work, the workspace's socket of approvals rings
 * when there is a question; otherwise there is nothing to hear.
 */
import { blankCall } from "./calls.ts";
import { childrenOf, type Branch } from "./children.ts";
import type { Said } from "./desk.ts";
import type { Json } from "../lib/json.ts";
import type { QuestionItem } from "./items.ts";
import { listenTo } from "../lib/bells.ts";
import { newest, type Asking } from "../lib/newest.ts";
import type { Opening } from "./opening.ts";
import type { Rest } from "../lib/rest.ts";
import type { Action, State } from "./state.ts";

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

interface FamilyOptions {
  opening: Opening;
  rest: Rest;
  dispatch: (action: Action) => void;
}

const PAUSE_MS = 150;

export class Family {
  private seen = "";
  private bell: (() => void) | null = null;
  private readonly options: FamilyOptions;
  private readonly asking: Asking;

  constructor(options: FamilyOptions) {
    this.options = options;
    this.asking = newest(
      () => this.ask(),
      (told) => this.tell(told),
      PAUSE_MS,
    );
  }

  /** Look again when a child came or ended, and listen while one is at work. */
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
    await this.options.rest.post(`${this.options.opening.approvals}${approvalId}/`, { ...said });
    this.asking.soon();
  }

  close(): void {
    this.asking.stop();
    this.unlisten();
  }

  private listen(): void {
    this.bell ??= listenTo("/ws/approvals/", () => this.asking.soon());
  }

  private unlisten(): void {
    this.bell?.();
    this.bell = null;
  }

  private async ask(): Promise<Told> {
    const { opening, rest } = this.options;
    const asked = `${opening.approvals}?status=pending&tree=1&session=${opening.session_id}`;
    const [tree, questions] = await Promise.all([
      rest.get<{ results: Branch[] }>(`${opening.api}tree/`),
      this.bell ? rest.get<{ results: Asked[] }>(asked) : { results: [] },
    ]);
    return { branches: tree.results, asked: questions.results };
  }

  private tell({ branches, asked }: Told): void {
    const { opening, dispatch } = this.options;
    dispatch({ type: "branches", branches });
    const below = asked.filter((one) => one.session_id !== opening.session_id);
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
