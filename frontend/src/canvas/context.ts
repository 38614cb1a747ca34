/** What the parts of the editor share. */
import { createContext, useContext, useSyncExternalStore } from "react";
import type { CanvasDocument, SavedCanvas, View } from "./document.ts";
import type { CanvasNode, Graph } from "./graph.ts";
import type { PluginKind, Schema } from "./kinds.ts";
import type { Runs, RunsView } from "./runs.ts";
import type { Peer } from "./presence.ts";
import type { Rest } from "../lib/rest.ts";

export interface ToolInfo {
  name: string;
  title: string;
  description: string;
  category: string;
  schema: Schema;
}

export interface Trigger {
  id: string;
  name: string;
  kind: "schedule" | "webhook";
  when: string;
  url: string;
  is_paused: boolean;
}

export interface Template extends Graph {
  name: string;
  about: string;
}

/** What the server puts into the page. */
export interface Boot {
  agent: { id: string; name: string };
  me: { id: string; name: string };
  may_build: boolean;
  may_run: boolean;
  canvas: SavedCanvas;
  /** The most nodes that a canvas may have. */
  most_nodes: number;
  tools: ToolInfo[];
  agents: { id: string; name: string }[];
  workflows: { name: string; about: string; schema: Schema | null }[];
  plugins: PluginKind[];
  triggers: Trigger[];
  templates: Template[];
  urls: {
    canvas: string;
    socket: string;
    workflows: string;
    sessions: string;
    trigger_new: string;
    page: string;
  };
}

/** A value that views follow. */
export class Cell<T> {
  value: T;
  private readonly listeners = new Set<() => void>();

  constructor(first: T) {
    this.value = first;
  }

  readonly get = (): T => this.value;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }
}

export interface Shared {
  boot: Boot;
  rest: Rest;
  doc: CanvasDocument;
  runs: Runs;
  peers: Cell<Peer[]>;
  /** The nodes that are selected. */
  selected: Cell<ReadonlySet<string>>;
  /** Show and select a node. */
  reveal(id: string): void;
  /** Announce something to screen readers. */
  announce(text: string): void;
}

export const SharedContext = createContext<Shared | null>(null);

export function useShared(): Shared {
  const shared = useContext(SharedContext);
  if (!shared) throw new Error("The editor is missing.");
  return shared;
}

export function useView(): View {
  const { doc } = useShared();
  return useSyncExternalStore(doc.subscribe, doc.snapshot);
}

export function useCell<T>(cell: Cell<T>): T {
  return useSyncExternalStore(cell.subscribe, cell.get);
}

/** Follow one part of a cell; the part must be the same object while it does not change. */
export function usePart<T, P>(cell: Cell<T>, part: (value: T) => P): P {
  return useSyncExternalStore(cell.subscribe, () => part(cell.value));
}

export function useRuns(): RunsView {
  return useCell(useShared().runs.view);
}

/** Change the configuration of a node; a value of undefined removes its name. */
export function changeConfig(shared: Shared, node: CanvasNode, name: string, value: unknown): void {
  const change = (one: CanvasNode): CanvasNode => {
    const config = { ...one.config, [name]: value };
    if (value === undefined) delete config[name];
    return { ...one, config };
  };
  changeNode(shared, node.id, `Change ${name}`, change, `${node.id}.${name}`);
}

export function changeNode(
  shared: Shared,
  id: string,
  label: string,
  act: (node: CanvasNode) => CanvasNode,
  key = "",
): void {
  shared.doc.change(
    label,
    (graph) => ({ ...graph, nodes: graph.nodes.map((one) => (one.id === id ? act(one) : one)) }),
    key,
  );
}
