/** The runs of a canvas: the list of the last ones, and the live state of the one that is shown. */
import type { Rest } from "../lib/rest.ts";
import { connect, type Link } from "../lib/socket.ts";
import { Cell } from "./context.ts";

export interface NodeState {
  node: string;
  status: "running" | "waiting" | "waiting_approval" | "complete" | "errored" | "skipped";
  error: { code: string; message: string } | null;
  started_at: string;
  finished_at: string | null;
  /** Whether the output was given: pinned, or kept from an earlier run. */
  is_given?: boolean;
  cost?: string | null;
  preview?: string;
}

export interface Run {
  workflow_id: string;
  status: string;
  revision: number;
  is_test: boolean;
  input: unknown;
  error: { code: string; message: string } | null;
  nodes: NodeState[];
  created_at: string;
  finished_at: string | null;
  last_seq: number;
}

/** Everything that is known of one node in one run. */
export interface NodeDetail extends NodeState {
  input: unknown;
  output: unknown;
  has_output: boolean;
  attempts: { number: number; status: string; error: { message: string } | null }[];
  session_id: string | null;
  approval_step: string;
}

export interface RunsView {
  list: Run[];
  shown: Run | null;
  /** By node id, for the shown run. */
  states: Record<string, NodeState>;
  error: string;
}

const OVER = new Set(["complete", "errored", "terminated"]);
const GATHER_MS = 250;

export function isOver(run: Run): boolean {
  return OVER.has(run.status);
}

export class Runs {
  readonly view: Cell<RunsView> = new Cell<RunsView>({ list: [], shown: null, states: {}, error: "" });
  private readonly rest: Rest;
  private readonly path: string;
  private link: Link | null = null;
  private timer: number | undefined;
  private isFetching = false;
  private isAgain = false;

  /** `path` is the canvas's address in the REST API. */
  constructor(rest: Rest, path: string) {
    this.rest = rest;
    this.path = path;
  }

  async load(): Promise<void> {
    await this.attempt(async () => {
      const { results } = await this.rest.get<{ results: Run[] }>(`${this.path}runs/?limit=15`);
      this.put({ list: results });
    });
  }

  async start(what: "run" | "test", body: Record<string, unknown>): Promise<void> {
    const { workflow_id } = await this.rest.post<{ workflow_id: string }>(`${this.path}${what}/`, body);
    await this.show(workflow_id);
    void this.load();
  }

  /** Show a run on the nodes, and follow it until it is over. */
  async show(id: string | null): Promise<void> {
    this.link?.close();
    this.link = null;
    if (id === null) {
      this.put({ shown: null, states: {} });
      return;
    }
    await this.fetch(id);
    const shown = this.view.value.shown;
    if (!shown || shown.workflow_id !== id || isOver(shown)) return;
    let cursor = shown.last_seq;
    this.link = connect({
      path: () => `/ws/workflows/${id}/?after=${cursor}`,
      onMessage: (text) => {
        const { seq } = JSON.parse(text) as { seq?: number | null };
        if (!seq) return;
        cursor = seq;
        window.clearTimeout(this.timer);
        this.timer = window.setTimeout(() => void this.refresh(id), GATHER_MS);
      },
      onState: (state) => {
        if (state === "open") void this.refresh(id);
      },
    });
  }

  detail(id: string, node: string): Promise<NodeDetail> {
    return this.rest.get(`${this.path}runs/${id}/nodes/${encodeURIComponent(node)}/`);
  }

  async answer(id: string, verdict: "approve" | "reject", step: string): Promise<void> {
    await this.rest.post(`/api/v1/workflows/${id}/${verdict}/`, { step });
    await this.refresh(id);
  }

  async stop(id: string): Promise<void> {
    await this.rest.post(`/api/v1/workflows/${id}/terminate/`, {});
    await this.refresh(id);
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.link?.close();
  }

  private async refresh(id: string): Promise<void> {
    if (this.view.value.shown?.workflow_id !== id) return;
    if (this.isFetching) {
      this.isAgain = true;
      return;
    }
    this.isFetching = true;
    try {
      await this.fetch(id);
    } finally {
      this.isFetching = false;
    }
    if (this.isAgain) {
      this.isAgain = false;
      await this.refresh(id);
      return;
    }
    const shown = this.view.value.shown;
    if (shown?.workflow_id === id && isOver(shown) && this.link) {
      this.link.close();
      this.link = null;
    }
  }

  private async fetch(id: string): Promise<void> {
    await this.attempt(async () => {
      const shown = await this.rest.get<Run>(`${this.path}runs/${id}/`);
      const old = this.view.value.states;
      const states: Record<string, NodeState> = {};
      for (const state of shown.nodes) {
        const was = old[state.node];
        states[state.node] = was && JSON.stringify(was) === JSON.stringify(state) ? was : state;
      }
      const list = this.view.value.list.map((run) => (run.workflow_id === id ? shown : run));
      this.put({ shown, states, list });
    });
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.put({ error: "" });
    } catch (fault) {
      this.put({ error: (fault as Error).message });
    }
  }

  private put(more: Partial<RunsView>): void {
    this.view.set({ ...this.view.value, ...more });
  }
}
