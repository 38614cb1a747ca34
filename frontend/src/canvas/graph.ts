/** The graph of a canvas in the browser: merging two people's changes, comparing, copying, layout. */

export interface Position {
  x: number;
  y: number;
}

export interface CanvasNode {
  id: string;
  type: string;
  name: string;
  config: Record<string, unknown>;
  position: Position;
  /** The output that test runs use instead of running the node. */
  pin?: { output: unknown };
}

export interface CanvasEdge {
  source: string;
  target: string;
  handle: string;
  label: string;
}

export interface Graph {
  nodes: CanvasNode[];
  edges: CanvasEdge[];
}

export const EMPTY: Graph = { nodes: [], edges: [] };

export function edgeKey(edge: CanvasEdge): string {
  return `${edge.source}|${edge.handle}|${edge.target}`;
}

/** Return JSON with sorted keys, so that equal values have equal texts. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    one && typeof one === "object" && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );
}

export function isSame(one: unknown, other: unknown): boolean {
  return one === other || canonical(one) === canonical(other);
}

export function isSameGraph(one: Graph, other: Graph): boolean {
  return one === other || (isSame(one.nodes, other.nodes) && isSame(one.edges, other.edges));
}

// --- Merging

/** A field that two people changed at the same time: mine was kept. */
export interface Clash {
  node: string;
  field: string;
  mine: unknown;
  theirs: unknown;
}

export interface Merged {
  graph: Graph;
  clashes: Clash[];
}

/**
 * Merge two changes of the same graph, field by field.
 *
 * A node that one side deleted and the other changed stays. Where both changed the same field to
 * different values, mine is kept and the clash is reported with both values.
 */
export function merge(base: Graph, mine: Graph, theirs: Graph): Merged {
  const clashes: Clash[] = [];
  const before = byId(base.nodes);
  const ours = byId(mine.nodes);
  const nodes: CanvasNode[] = [];
  const seen = new Set<string>();
  for (const node of [...theirs.nodes, ...mine.nodes]) {
    if (seen.has(node.id)) continue;
    seen.add(node.id);
    const kept = mergeNode(before.get(node.id), ours.get(node.id), byIdIn(theirs, node.id), clashes);
    if (kept) nodes.push(kept);
  }
  const ids = new Set(nodes.map((node) => node.id));
  const edges = mergeEdges(base, mine, theirs).filter((edge) => ids.has(edge.source) && ids.has(edge.target));
  return { graph: { nodes, edges }, clashes };
}

function mergeNode(
  base: CanvasNode | undefined,
  mine: CanvasNode | undefined,
  theirs: CanvasNode | undefined,
  clashes: Clash[],
): CanvasNode | null {
  if (!mine || !theirs) {
    const left = mine ?? theirs;
    // Deleted on one side: it goes unless the other side added or changed it.
    return left && (!base || !isSame(base, left)) ? left : null;
  }
  if (isSame(mine, theirs)) return theirs;
  const clash = (field: string, a: unknown, b: unknown): void => {
    if (field !== "position") clashes.push({ node: mine.id, field, mine: a, theirs: b });
  };
  const pick = <T>(field: string, from: T | undefined, a: T, b: T): T => {
    if (isSame(a, b) || isSame(from, a)) return b;
    if (!isSame(from, b)) clash(field, a, b);
    return a;
  };
  const config: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(theirs.config), ...Object.keys(mine.config)])) {
    const value = pick(name, base?.config[name], mine.config[name], theirs.config[name]);
    if (value !== undefined) config[name] = value;
  }
  const pin = pick("pin", base?.pin, mine.pin, theirs.pin);
  return {
    id: mine.id,
    type: pick("type", base?.type, mine.type, theirs.type),
    name: pick("name", base?.name, mine.name, theirs.name),
    config,
    position: pick("position", base?.position, mine.position, theirs.position),
    ...(pin ? { pin } : {}),
  };
}

function mergeEdges(base: Graph, mine: Graph, theirs: Graph): CanvasEdge[] {
  const before = new Map(base.edges.map((edge) => [edgeKey(edge), edge]));
  const ours = new Map(mine.edges.map((edge) => [edgeKey(edge), edge]));
  const others = new Map(theirs.edges.map((edge) => [edgeKey(edge), edge]));
  const found: CanvasEdge[] = [];
  for (const key of new Set([...others.keys(), ...ours.keys()])) {
    const [from, a, b] = [before.get(key), ours.get(key), others.get(key)];
    if (a && b) found.push(from && isSame(from, a) ? b : a);
    else if (!from) found.push((a ?? b) as CanvasEdge);
    else if (!isSame(from, a ?? b)) found.push((a ?? b) as CanvasEdge);
  }
  return found;
}

function byId(nodes: CanvasNode[]): Map<string, CanvasNode> {
  return new Map(nodes.map((node) => [node.id, node]));
}

/** The last graph that was indexed: merging asks for each node of the same graph. */
let indexed: { graph: Graph; nodes: Map<string, CanvasNode> } | null = null;

function byIdIn(graph: Graph, id: string): CanvasNode | undefined {
  if (indexed?.graph !== graph) indexed = { graph, nodes: byId(graph.nodes) };
  return indexed.nodes.get(id);
}

// --- Comparing

export interface Difference {
  added: CanvasNode[];
  removed: CanvasNode[];
  changed: { node: CanvasNode; fields: { name: string; before: unknown; after: unknown }[] }[];
  moved: number;
  edgesAdded: CanvasEdge[];
  edgesRemoved: CanvasEdge[];
}

/** Return what differs between two graphs, for people. */
export function compare(before: Graph, after: Graph): Difference {
  const [old, now] = [byId(before.nodes), byId(after.nodes)];
  const changed: Difference["changed"] = [];
  let moved = 0;
  for (const node of after.nodes) {
    const was = old.get(node.id);
    if (!was) continue;
    if (!isSame(was.position, node.position)) moved += 1;
    const fields = fieldsOf(was, node);
    if (fields.length) changed.push({ node, fields });
  }
  const [first, second] = [before.edges.map(edgeKey), after.edges.map(edgeKey)].map((keys) => new Set(keys));
  return {
    added: after.nodes.filter((node) => !old.has(node.id)),
    removed: before.nodes.filter((node) => !now.has(node.id)),
    changed,
    moved,
    edgesAdded: after.edges.filter((edge) => !first?.has(edgeKey(edge))),
    edgesRemoved: before.edges.filter((edge) => !second?.has(edgeKey(edge))),
  };
}

function fieldsOf(was: CanvasNode, node: CanvasNode): { name: string; before: unknown; after: unknown }[] {
  const names = new Set([...Object.keys(was.config), ...Object.keys(node.config)]);
  const pairs: [string, unknown, unknown][] = [
    ["name", was.name, node.name],
    ["type", was.type, node.type],
    ["pinned output", was.pin?.output, node.pin?.output],
    ...[...names].map((name): [string, unknown, unknown] => [name, was.config[name], node.config[name]]),
  ];
  return pairs.filter(([, a, b]) => !isSame(a, b)).map(([name, before, after]) => ({ name, before, after }));
}

// --- Adding and copying

/** Return an id that no node has, such as `agent` or `agent_2`. */
export function freeId(wanted: string, taken: ReadonlySet<string>): string {
  const stem = wanted.replace(/_\d+$/, "").slice(0, 50) || "node";
  if (!taken.has(stem)) return stem;
  for (let nth = 2; ; nth += 1) if (!taken.has(`${stem}_${nth}`)) return `${stem}_${nth}`;
}

/** What copying puts on the clipboard. */
export interface Clip {
  switchyard: "canvas";
  nodes: CanvasNode[];
  edges: CanvasEdge[];
}

export function clipOf(graph: Graph, ids: ReadonlySet<string>): Clip {
  return {
    switchyard: "canvas",
    nodes: graph.nodes.filter((node) => ids.has(node.id)),
    edges: graph.edges.filter((edge) => ids.has(edge.source) && ids.has(edge.target)),
  };
}

/** Return the clip in a text, or null if it is something else. */
export function readClip(text: string): Clip | null {
  try {
    const found = JSON.parse(text) as Partial<Clip> | null;
    if (found?.switchyard !== "canvas" || !Array.isArray(found.nodes) || !Array.isArray(found.edges)) return null;
    const isNode = (one: Partial<CanvasNode>): boolean =>
      typeof one?.id === "string" && typeof one.type === "string" && typeof one.position?.x === "number" &&
      typeof one.position.y === "number" && typeof one.config === "object" && one.config !== null;
    return found.nodes.every(isNode) ? (found as Clip) : null;
  } catch {
    return null;
  }
}

/** Return the graph with a copy of the clip, under free ids, and the ids of the copies. */
export function paste(graph: Graph, clip: Clip, by: Position): { graph: Graph; ids: string[] } {
  const taken = new Set(graph.nodes.map((node) => node.id));
  const renamed = new Map<string, string>();
  for (const node of clip.nodes) {
    const id = freeId(node.id, taken);
    taken.add(id);
    renamed.set(node.id, id);
  }
  const nodes = clip.nodes.map((node) => ({
    ...node,
    id: renamed.get(node.id) as string,
    config: renameIn(node.config, renamed) as Record<string, unknown>,
    position: { x: node.position.x + by.x, y: node.position.y + by.y },
  }));
  const edges = clip.edges.flatMap((edge) => {
    const [source, target] = [renamed.get(edge.source), renamed.get(edge.target)];
    return source && target ? [{ ...edge, source, target }] : [];
  });
  return {
    graph: { nodes: [...graph.nodes, ...nodes], edges: [...graph.edges, ...edges] },
    ids: [...renamed.values()],
  };
}

/** Let `nodes.ID.output` in copied texts mean the copy. */
function renameIn(value: unknown, renamed: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") {
    return value.replace(/\bnodes\.([A-Za-z0-9][A-Za-z0-9_:-]*)\.output/g, (whole, id: string) => {
      const next = renamed.get(id);
      return next ? `nodes.${next}.output` : whole;
    });
  }
  if (Array.isArray(value)) return value.map((one) => renameIn(one, renamed));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, renameIn(one, renamed)]));
  }
  return value;
}

export function without(graph: Graph, ids: ReadonlySet<string>, edges: ReadonlySet<string> = new Set()): Graph {
  return {
    nodes: graph.nodes.filter((node) => !ids.has(node.id)),
    edges: graph.edges.filter(
      (edge) => !ids.has(edge.source) && !ids.has(edge.target) && !edges.has(edgeKey(edge)),
    ),
  };
}

/** Return all nodes that lead to this one. */
export function before(graph: Graph, id: string): CanvasNode[] {
  const into = new Map<string, string[]>();
  for (const edge of graph.edges) into.set(edge.target, [...(into.get(edge.target) ?? []), edge.source]);
  const seen = new Set<string>();
  const waiting = [...(into.get(id) ?? [])];
  while (waiting.length) {
    const next = waiting.pop() as string;
    if (seen.has(next) || next === id) continue;
    seen.add(next);
    waiting.push(...(into.get(next) ?? []));
  }
  return graph.nodes.filter((node) => seen.has(node.id));
}

// --- Layout

export const NODE_WIDTH = 220;
const COLUMN = 300;
const ROW = 110;

/** Return the graph with its nodes in columns from left to right, and its comments above them. */
export function layOut(graph: Graph): Graph {
  const placed = graph.nodes.filter((node) => node.type !== "note");
  const depths = depthsOf(placed, graph.edges);
  const columns: string[][] = [];
  for (const node of placed) (columns[depths.get(node.id) ?? 0] ??= []).push(node.id);
  sortColumns(columns, graph.edges);
  const places = new Map<string, Position>();
  const tallest = Math.max(1, ...columns.map((column) => column?.length ?? 0));
  columns.forEach((column, depth) => {
    const lead = ((tallest - column.length) * ROW) / 2;
    column.forEach((id, row) => places.set(id, { x: depth * COLUMN, y: lead + row * ROW }));
  });
  graph.nodes
    .filter((node) => node.type === "note")
    .forEach((note, nth) => places.set(note.id, { x: nth * (NODE_WIDTH + 20), y: -1.5 * ROW }));
  return {
    ...graph,
    nodes: graph.nodes.map((node) => ({ ...node, position: places.get(node.id) ?? node.position })),
  };
}

/** Return how far each node is from a start; edges that close a cycle are ignored. */
function depthsOf(nodes: CanvasNode[], edges: CanvasEdge[]): Map<string, number> {
  const following = new Map<string, string[]>();
  for (const edge of edges) following.set(edge.source, [...(following.get(edge.source) ?? []), edge.target]);
  const depths = new Map(nodes.map((node) => [node.id, 0]));
  const order: string[] = [];
  const state = new Map<string, "open" | "done">();
  const ahead = new Map<string, string[]>();
  for (const start of nodes) {
    const stack: { id: string; next: number }[] = state.has(start.id) ? [] : [{ id: start.id, next: 0 }];
    if (stack.length) state.set(start.id, "open");
    while (stack.length) {
      const top = stack[stack.length - 1] as { id: string; next: number };
      const target = following.get(top.id)?.[top.next];
      top.next += 1;
      if (target === undefined) {
        state.set(top.id, "done");
        order.push(top.id);
        stack.pop();
      } else if (depths.has(target) && state.get(target) !== "open") {
        ahead.set(top.id, [...(ahead.get(top.id) ?? []), target]);
        if (!state.has(target)) {
          state.set(target, "open");
          stack.push({ id: target, next: 0 });
        }
      }
    }
  }
  for (const id of order.reverse()) {
    for (const target of ahead.get(id) ?? []) {
      depths.set(target, Math.max(depths.get(target) ?? 0, (depths.get(id) ?? 0) + 1));
    }
  }
  return depths;
}

/** Order each column by the rows of the nodes that lead to it, so that few edges cross. */
function sortColumns(columns: string[][], edges: CanvasEdge[]): void {
  const sources = new Map<string, string[]>();
  for (const edge of edges) sources.set(edge.target, [...(sources.get(edge.target) ?? []), edge.source]);
  const rows = new Map<string, number>();
  for (let depth = 0; depth < columns.length; depth += 1) {
    const column = (columns[depth] ??= []);
    const weight = (id: string): number => {
      const found = (sources.get(id) ?? []).flatMap((source) => rows.get(source) ?? []);
      return found.length ? found.reduce((sum, row) => sum + row, 0) / found.length : 0;
    };
    const weights = new Map(column.map((id) => [id, weight(id)]));
    column.sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0));
    column.forEach((id, row) => rows.set(id, row / Math.max(1, column.length)));
  }
}
