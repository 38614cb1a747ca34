/** The canvas that one person edits: saved as they work, merged with what others save. */
import {
  type Clash,
  type Graph,
  isSameGraph,
  merge,
} from "./graph.ts";
import { Refused } from "../lib/rest.ts";

export interface Problem {
  code: string;
  message: string;
  node: string | null;
  level: "error" | "warning";
}

export interface Author {
  user_id: string | null;
  session_id: string | null;
  run_id: string | null;
}

/** A canvas as REST returns it. */
export interface SavedCanvas extends Graph {
  revision: number;
  published_revision: number | null;
  problems?: Problem[];
  author: Author | null;
}

/** What the document needs of the server. */
export interface CanvasServer {
  read(): Promise<SavedCanvas>;
  save(graph: Graph, revision: number): Promise<SavedCanvas>;
  publish(revision: number): Promise<SavedCanvas>;
}

export type SaveState = "saved" | "unsaved" | "saving" | "failed";

/** One state of the document. A new object for every change, so that views compare by identity. */
export interface View {
  graph: Graph;
  revision: number;
  published: number | null;
  problems: Problem[];
  saving: SaveState;
  error: string;
  clashes: Clash[];
  undoLabel: string;
  redoLabel: string;
}

interface Change {
  label: string;
  /** Changes with the same key within a moment are one. */
  key: string;
  at: number;
  before: Graph;
  after: Graph;
}

const SAVE_MS = 500;
const RETRY_MS = 3_000;
const COALESCE_MS = 1_500;
const MOST_CHANGES = 200;

export class CanvasDocument {
  view: View;
  private readonly server: CanvasServer;
  private readonly mayWrite: boolean;
  private readonly listeners = new Set<() => void>();
  /** The newest graph of the server that this document has seen. */
  private base: Graph;
  private undone: Change[] = [];
  private done: Change[] = [];
  private timer: number | undefined;
  private isBusy = false;
  private isStale = false;
  private isClosed = false;

  constructor(server: CanvasServer, first: SavedCanvas, mayWrite: boolean) {
    this.server = server;
    this.mayWrite = mayWrite;
    this.base = { nodes: first.nodes, edges: first.edges };
    this.view = {
      graph: this.base,
      revision: first.revision,
      published: first.published_revision,
      problems: first.problems ?? [],
      saving: "saved",
      error: "",
      clashes: [],
      undoLabel: "",
      redoLabel: "",
    };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): View => this.view;

  get isUnsaved(): boolean {
    return !isSameGraph(this.view.graph, this.base);
  }

  close(): void {
    this.isClosed = true;
    window.clearTimeout(this.timer);
  }

  // --- Changing

  /** Change the graph, undoably. Changes with the same key in a row count as one. */
  change(label: string, act: (graph: Graph) => Graph, key = ""): void {
    if (!this.mayWrite) return;
    const before = this.view.graph;
    const after = act(before);
    if (after === before || isSameGraph(before, after)) return;
    const last = this.done.at(-1);
    const now = Date.now();
    if (key && last?.key === key && now - last.at < COALESCE_MS && !this.undone.length) {
      this.done[this.done.length - 1] = { ...last, after, at: now };
    } else {
      this.done = [...this.done.slice(1 - MOST_CHANGES), { label, key, at: now, before, after }];
    }
    this.undone = [];
    this.put(after);
  }

  /** Take back the last change of this person; what others changed since stays. */
  undo(): void {
    const change = this.done.pop();
    if (!change) return;
    this.undone.push(change);
    this.put(merge(change.after, this.view.graph, change.before).graph);
  }

  redo(): void {
    const change = this.undone.pop();
    if (!change) return;
    this.done.push(change);
    this.put(merge(change.before, this.view.graph, change.after).graph);
  }

  private put(graph: Graph): void {
    this.show({ graph, saving: "unsaved" });
    this.saveSoon(SAVE_MS);
  }

  dismissClash(clash: Clash): void {
    this.show({ clashes: this.view.clashes.filter((one) => one !== clash) });
  }

  private show(more: Partial<View>): void {
    this.view = {
      ...this.view,
      ...more,
      undoLabel: this.done.at(-1)?.label ?? "",
      redoLabel: this.undone.at(-1)?.label ?? "",
    };
    for (const listener of [...this.listeners]) listener();
  }

  // --- Saving and following

  private saveSoon(pause: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.save(), pause);
  }

  /** Save until the server has what is shown. */
  async save(): Promise<boolean> {
    window.clearTimeout(this.timer);
    if (this.isBusy || this.isClosed) return false;
    this.isBusy = true;
    try {
      while (this.isUnsaved || this.isStale) {
        if (this.isStale) await this.pull();
        else await this.push();
      }
      this.show({ saving: "saved", error: "" });
      return true;
    } catch (fault) {
      this.show({ saving: "failed", error: (fault as Error).message });
      // A refusal stays until the next change; a lost connection is tried again.
      if (!(fault instanceof Refused)) this.saveSoon(RETRY_MS);
      return false;
    } finally {
      this.isBusy = false;
      if (this.isStale && !this.isClosed) this.saveSoon(0);
    }
  }

  private async push(): Promise<void> {
    const sent = this.view.graph;
    this.show({ saving: "saving" });
    try {
      this.take(await this.server.save(sent, this.view.revision), sent);
    } catch (fault) {
      const newer = newerCanvas(fault);
      if (!newer) throw fault;
      this.take(newer, this.base);
    }
  }

  private async pull(): Promise<void> {
    this.isStale = false;
    this.take(await this.server.read(), this.base);
  }

  /** Continue on a state of the server. `known` is what both sides had in common. */
  private take(saved: SavedCanvas, known: Graph): void {
    if (saved.revision < this.view.revision) return;
    const theirs: Graph = { nodes: saved.nodes, edges: saved.edges };
    const merged = merge(known, this.view.graph, theirs);
    this.base = theirs;
    const graph = isSameGraph(merged.graph, theirs) ? theirs : merged.graph;
    this.show({
      graph: isSameGraph(graph, this.view.graph) ? this.view.graph : graph,
      revision: saved.revision,
      published: saved.published_revision,
      problems: saved.problems ?? this.view.problems,
      clashes: [...this.view.clashes, ...merged.clashes],
    });
    if (!saved.problems) this.isStale = true;
  }

  /** The server has another state: fetch it and merge. */
  follow(revision: number, published: number | null | undefined): void {
    const isKnown = revision <= this.view.revision && (published === undefined || published === this.view.published);
    if (isKnown) return;
    this.isStale = true;
    void this.save();
  }

  /** Publish what is shown, saved first. */
  async publish(): Promise<void> {
    if (this.isUnsaved && !(await this.settle())) throw new Error(this.view.error || "The canvas is not saved yet.");
    const errors = this.view.problems.filter((one) => one.level === "error");
    const [first] = errors;
    if (first) throw new Error(`${errors.length === 1 ? "An error keeps" : `${errors.length} errors keep`} this canvas from running: ${first.message}`);
    const saved = await this.server.publish(this.view.revision);
    this.take(saved, this.base);
  }

  /** Wait until everything is saved. */
  async settle(): Promise<boolean> {
    for (let tries = 0; tries < 100; tries += 1) {
      if (!this.isUnsaved && !this.isBusy) return true;
      if (!this.isBusy && !(await this.save()) && this.view.saving === "failed") return false;
      await new Promise((done) => window.setTimeout(done, 50));
    }
    return !this.isUnsaved;
  }
}

/** Return the newer canvas that a refused save carries. */
function newerCanvas(fault: unknown): SavedCanvas | null {
  if (!(fault instanceof Refused) || fault.status !== 409) return null;
  const current = fault.body["current"] as SavedCanvas | undefined;
  return current && typeof current.revision === "number" ? current : null;
}
