/** The editor of a canvas: nodes that one adds, drags, connects and configures, by mouse or keyboard. */
import {
  applyNodeChanges,
  Background,
  type Connection,
  type Edge,
  type EdgeChange,
  MiniMap,
  type NodeChange,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Chooser, type Choice } from "./chooser.tsx";
import { SharedContext, type Shared, useCell, useShared, useView } from "./context.ts";
import {
  type CanvasEdge,
  type CanvasNode,
  clipOf,
  edgeKey,
  freeId,
  type Graph,
  layOut,
  NODE_WIDTH,
  paste,
  readClip,
  without,
} from "./graph.ts";
import { KINDS, kindOf, titleOf } from "./kinds.ts";
import { ariaLabelOf, type FlowNode, NODE_TYPES, OUT } from "./nodes.tsx";
import { Panel, type Tab } from "./panel.tsx";
import { RunDialog } from "./run-panel.tsx";
import { Toolbar } from "./toolbar.tsx";

type Overlay = { kind: "add" | "find" | "templates" | "help" } | { kind: "connect"; from: string } | { kind: "run"; from?: string };

/** Nodes stay readable, even if not all of them fit. */
const FIT = { minZoom: 0.4, maxZoom: 1 };
const COPY_SHIFT = { x: 40, y: 40 };

export function Editor({ shared }: { shared: Shared }): ReactNode {
  return (
    <SharedContext value={shared}>
      <ReactFlowProvider>
        <Whole />
      </ReactFlowProvider>
    </SharedContext>
  );
}

/** Whether a key press goes to a field. */
function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

function toFlow(node: CanvasNode, selected: ReadonlySet<string>, old: FlowNode | undefined, label: string): FlowNode {
  const isSelected = selected.has(node.id);
  if (old?.data.node === node && old.selected === isSelected) return old;
  return {
    ...(old ?? {}),
    id: node.id,
    type: node.type === "note" ? "note" : "step",
    position: node.position,
    data: old?.data.node === node ? old.data : { node },
    selected: isSelected,
    ariaLabel: label,
    ...(node.type === "note" ? { zIndex: -1 } : {}),
  };
}

function Whole(): ReactNode {
  const shared = useShared();
  const { boot, doc } = shared;
  const view = useView();
  const flow = useReactFlow<FlowNode>();
  const selected = useCell(shared.selected);
  const [edgesChosen, setEdgesChosen] = useState<ReadonlySet<string>>(new Set());
  const [nodes, setNodes] = useState<FlowNode[]>([]);
  const [overlay, setOverlay] = useState<Overlay | null>(null);
  const [tab, setTab] = useState<Tab>("node");
  const [hasMap, setMap] = useState(true);
  const root = useRef<HTMLDivElement | null>(null);
  const pane = useRef<HTMLDivElement | null>(null);

  // --- The graph as React Flow draws it

  useEffect(() => {
    setNodes((old) => {
      const known = new Map(old.map((node) => [node.id, node]));
      return view.graph.nodes.map((node) =>
        toFlow(node, selected, known.get(node.id), ariaLabelOf(node, boot.plugins)),
      );
    });
  }, [view.graph, selected, boot]);

  const edges = useMemo(() => {
    const kinds = new Map(view.graph.nodes.map((node) => [node.id, kindOf(node.type, boot.plugins)]));
    const names = new Map(view.graph.nodes.map((node) => [node.id, titleOf(node, boot.plugins)]));
    return view.graph.edges.map((edge): Edge => {
      const outs = kinds.get(edge.source)?.outs ?? [];
      const out = outs.find(([handle]) => handle === edge.handle) ?? outs[0];
      const key = edgeKey(edge);
      const words = edge.label || (outs.length > 1 ? out?.[1] : "") || edge.handle;
      return {
        id: key,
        source: edge.source,
        target: edge.target,
        sourceHandle: out?.[0] || OUT,
        ...(words ? { label: words } : {}),
        selected: edgesChosen.has(key),
        ariaLabel: `Connection from ${names.get(edge.source)} to ${names.get(edge.target)}`,
        interactionWidth: 18,
      };
    });
  }, [view.graph, edgesChosen, boot]);

  const onNodesChange = useCallback(
    (changes: NodeChange<FlowNode>[]): void => {
      setNodes((old) => applyNodeChanges(changes, old));
      const chosen = changes.filter((one) => one.type === "select");
      if (chosen.length) {
        const next = new Set(shared.selected.value);
        for (const one of chosen) one.selected ? next.add(one.id) : next.delete(one.id);
        shared.selected.set(next);
        if (chosen.some((one) => one.selected)) setTab("node");
      }
      const moved = changes.flatMap((one) => (one.type === "position" && one.position && !one.dragging ? [one] : []));
      if (!moved.length) return;
      const places = new Map(moved.map((one) => [one.id, one.position]));
      const label = moved.length === 1 ? "Move a node" : "Move nodes";
      doc.change(label, (graph) => ({
        ...graph,
        nodes: graph.nodes.map((node) => {
          const place = places.get(node.id);
          return place ? { ...node, position: { x: Math.round(place.x), y: Math.round(place.y) } } : node;
        }),
      }), `move ${[...places.keys()].join()}`);
    },
    [shared, doc],
  );

  const onEdgesChange = useCallback((changes: EdgeChange[]): void => {
    setEdgesChosen((old) => {
      const next = new Set(old);
      for (const one of changes) if (one.type === "select") one.selected ? next.add(one.id) : next.delete(one.id);
      return next;
    });
  }, []);

  // --- What one can do

  const announce = shared.announce;

  const reveal = useCallback(
    (id: string): void => {
      shared.selected.set(new Set([id]));
      setEdgesChosen(new Set());
      setTab("node");
      const node = doc.view.graph.nodes.find((one) => one.id === id);
      if (!node) return;
      const zoom = Math.max(flow.getZoom(), 0.7);
      void flow.setCenter(node.position.x + NODE_WIDTH / 2, node.position.y + 40, { zoom });
      // Only drawn once it is in sight.
      focusSoon(() => root.current?.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"]`));
    },
    [shared, doc, flow],
  );
  useEffect(() => {
    shared.reveal = reveal;
  }, [shared, reveal]);

  const connectNodes = useCallback(
    (source: string, target: string, handle: string): void => {
      const edge: CanvasEdge = { source, target, handle, label: "" };
      doc.change("Connect nodes", (graph) =>
        graph.edges.some((one) => edgeKey(one) === edgeKey(edge)) ? graph : { ...graph, edges: [...graph.edges, edge] },
      );
      announce("Connected.");
    },
    [doc, announce],
  );

  const onConnect = useCallback(
    (made: Connection): void => {
      if (made.source === made.target) return;
      connectNodes(made.source, made.target, made.sourceHandle && made.sourceHandle !== OUT ? made.sourceHandle : "");
    },
    [connectNodes],
  );

  /** Return the handle of the next edge out of a node: the first branch that leads nowhere yet. */
  function freeHandle(graph: Graph, node: CanvasNode): string | null {
    const outs = kindOf(node.type, boot.plugins).outs;
    const used = new Set(graph.edges.filter((edge) => edge.source === node.id).map((edge) => edge.handle));
    return (outs.find(([handle]) => !used.has(handle)) ?? outs[0])?.[0] ?? null;
  }

  function centre(): { x: number; y: number } {
    const box = pane.current?.getBoundingClientRect();
    const middle = flow.screenToFlowPosition({ x: (box?.x ?? 0) + (box?.width ?? 0) / 2, y: (box?.y ?? 0) + (box?.height ?? 0) / 2 });
    return { x: Math.round(middle.x - NODE_WIDTH / 2), y: Math.round(middle.y - 40) };
  }

  /** Add a node: after the selected one, connected to it, or where it was dropped. */
  function add(type: string, at?: { x: number; y: number }): void {
    const { graph } = doc.view;
    if (graph.nodes.length >= boot.most_nodes) return announce(`A canvas has at most ${boot.most_nodes} nodes.`);
    const id = freeId(type, new Set(graph.nodes.map((node) => node.id)));
    const kind = kindOf(type, boot.plugins);
    const only = !at && selected.size === 1 ? graph.nodes.find((node) => selected.has(node.id)) : undefined;
    const handle = only && kind.hasIn ? freeHandle(graph, only) : null;
    const below = graph.edges.filter((edge) => edge.source === only?.id).length;
    const position = at ?? (only && handle !== null ? { x: only.position.x + 300, y: only.position.y + below * 110 } : centre());
    const node: CanvasNode = { id, type, name: "", config: type === "loop" ? { body: { type: "agent", config: {} } } : {}, position };
    doc.change(`Add ${kind.label}`, (now) => ({
      nodes: [...now.nodes, node],
      edges: only && handle !== null ? [...now.edges, { source: only.id, target: id, handle, label: "" }] : now.edges,
    }));
    announce(`Added: ${kind.label}.`);
    reveal(id);
  }

  function remove(): void {
    if (!selected.size && !edgesChosen.size) return;
    const count = selected.size;
    doc.change(count ? (count === 1 ? "Delete a node" : `Delete ${count} nodes`) : "Delete a connection", (graph) => without(graph, selected, edgesChosen));
    shared.selected.set(new Set());
    setEdgesChosen(new Set());
    announce(count ? `Deleted ${count} ${count === 1 ? "node" : "nodes"}.` : "Deleted the connection.");
    pane.current?.focus();
  }

  function addClip(text: string): void {
    const clip = readClip(text);
    if (!clip?.nodes.length) return;
    const { graph, ids } = paste(doc.view.graph, clip, COPY_SHIFT);
    if (graph.nodes.length > boot.most_nodes) return announce(`A canvas has at most ${boot.most_nodes} nodes.`);
    doc.change(ids.length === 1 ? "Paste a node" : `Paste ${ids.length} nodes`, () => graph);
    shared.selected.set(new Set(ids));
    announce(`Pasted ${ids.length} ${ids.length === 1 ? "node" : "nodes"}.`);
    const first = ids[0];
    if (ids.length === 1 && first) reveal(first);
  }

  function tidy(): void {
    doc.change("Tidy up", layOut);
    announce("Arranged the nodes.");
    window.setTimeout(() => void flow.fitView(FIT), 50);
  }

  function undo(): void {
    const label = doc.view.undoLabel;
    doc.undo();
    if (label) announce(`Undone: ${label}.`);
  }

  function redo(): void {
    const label = doc.view.redoLabel;
    doc.redo();
    if (label) announce(`Redone: ${label}.`);
  }

  /** Go to the next or previous node along the connections, else in the order of the graph. */
  function step(by: 1 | -1): void {
    const { graph } = doc.view;
    const now = graph.nodes.find((node) => selected.has(node.id));
    const along = now && graph.edges.filter((edge) => (by > 0 ? edge.source : edge.target) === now.id);
    const next = along?.[0] ? (by > 0 ? along[0].target : along[0].source) : undefined;
    const index = now ? graph.nodes.indexOf(now) : by > 0 ? -1 : graph.nodes.length;
    const found = next ?? graph.nodes[(index + by + graph.nodes.length) % graph.nodes.length]?.id;
    if (found) reveal(found);
  }

  function onKey(event: React.KeyboardEvent): void {
    if (event.defaultPrevented || overlay) return;
    const isCommand = event.metaKey || event.ctrlKey;
    const typing = isTyping(event.target);
    const key = event.key.toLowerCase();
    const inPanel = event.target instanceof HTMLElement && event.target.closest(".cv-panel, .cv-bar") !== null;
    if (key === "escape" && inPanel) {
      const [id] = selected;
      const element = id ? root.current?.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"]`) : null;
      (element ?? pane.current)?.focus();
      event.preventDefault();
      return;
    }
    if (typing) return;
    const act = isCommand ? commands[event.shiftKey ? `shift+${key}` : key] : event.altKey ? undefined : plain[key];
    const isControl = event.target instanceof HTMLElement && event.target.closest("button, a") !== null;
    if (!act || ((inPanel || isControl) && ["enter", " ", "delete", "backspace"].includes(key))) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  const mayBuild = boot.may_build;
  const plain: Record<string, () => void> = {
    f: () => setOverlay({ kind: "find" }),
    "/": () => setOverlay({ kind: "find" }),
    "?": () => setOverlay({ kind: "help" }),
    "[": () => step(-1),
    "]": () => step(1),
    "0": () => void flow.fitView(FIT),
    "+": () => void flow.zoomIn(),
    "=": () => void flow.zoomIn(),
    "-": () => void flow.zoomOut(),
    m: () => setMap(!hasMap),
    enter: () => {
      const [id] = selected;
      const focused = document.activeElement?.closest<HTMLElement>(".react-flow__node")?.dataset["id"];
      if (focused && focused !== id) shared.selected.set(new Set([focused]));
      setTab("node");
      focusSoon(() => root.current?.querySelector<HTMLElement>("[data-node-name], .cv-panel textarea"));
    },
    escape: () => {
      shared.selected.set(new Set());
      setEdgesChosen(new Set());
    },
    ...(boot.may_run ? { r: () => setOverlay({ kind: "run" }) } : {}),
    ...(mayBuild
      ? {
          a: () => setOverlay({ kind: "add" }),
          c: () => {
            const [id] = selected;
            if (id && selected.size === 1) setOverlay({ kind: "connect", from: id });
          },
          t: tidy,
          delete: remove,
          backspace: remove,
        }
      : {}),
  };
  const commands: Record<string, () => void> = {
    a: () => shared.selected.set(new Set(view.graph.nodes.map((node) => node.id))),
    f: () => setOverlay({ kind: "find" }),
    s: () => void doc.save(),
    ...(mayBuild
      ? {
          z: undo,
          "shift+z": redo,
          y: redo,
          d: () => addClip(JSON.stringify(clipOf(doc.view.graph, selected))),
        }
      : {}),
  };

  // Copy and paste work by the browser's own events, which need no permission.
  useEffect(() => {
    const isHere = (event: ClipboardEvent): boolean =>
      !isTyping(event.target) && (root.current?.contains(document.activeElement) ?? false) && !document.querySelector("dialog[open]") && !window.getSelection()?.toString();
    const copy = (event: ClipboardEvent): void => {
      if (!isHere(event) || !shared.selected.value.size) return;
      event.clipboardData?.setData("text/plain", JSON.stringify(clipOf(doc.view.graph, shared.selected.value)));
      event.preventDefault();
      announce(`Copied ${shared.selected.value.size}.`);
    };
    const cut = (event: ClipboardEvent): void => {
      copy(event);
      if (event.defaultPrevented && mayBuild) remove();
    };
    const insert = (event: ClipboardEvent): void => {
      if (isHere(event) && mayBuild) addClip(event.clipboardData?.getData("text/plain") ?? "");
    };
    document.addEventListener("copy", copy);
    document.addEventListener("cut", cut);
    document.addEventListener("paste", insert);
    return () => {
      document.removeEventListener("copy", copy);
      document.removeEventListener("cut", cut);
      document.removeEventListener("paste", insert);
    };
  });

  const addable: Choice[] = useMemo(() => {
    const own = Object.entries(KINDS).filter(([type]) => type !== "trigger" || !view.graph.nodes.some((node) => node.type === "trigger"));
    const plugins = boot.plugins.map((one): [string, ReturnType<typeof kindOf>] => [one.name, kindOf(one.name, boot.plugins)]);
    return [...own, ...plugins].map(([type, kind]) => ({ key: type, label: kind.label, about: kind.about, icon: kind.icon, group: kind.group, isDraggable: true }));
  }, [view.graph, boot]);
  const listed: Choice[] = useMemo(
    () =>
      view.graph.nodes.map((node) => ({
        key: node.id,
        label: titleOf(node, boot.plugins),
        about: kindOf(node.type, boot.plugins).label + (overlay?.kind === "find" ? ` ${JSON.stringify(node.config).slice(0, 80)}` : ""),
        icon: kindOf(node.type, boot.plugins).icon,
      })),
    [view.graph, boot, overlay?.kind],
  );
  const close = (): void => setOverlay(null);
  const nameOf = (id: string): string => {
    const found = view.graph.nodes.find((node) => node.id === id);
    return found ? titleOf(found, boot.plugins) : id;
  };

  return (
    <div className="cv" ref={root} onKeyDown={onKey}>
      <Toolbar
        onAdd={() => setOverlay({ kind: "add" })}
        onUndo={undo}
        onRedo={redo}
        onTidy={tidy}
        onFind={() => setOverlay({ kind: "find" })}
        onHelp={() => setOverlay({ kind: "help" })}
        onTemplates={() => setOverlay({ kind: "templates" })}
        onRun={() => setOverlay({ kind: "run" })}
        onProblems={() => setTab("problems")}
      />
      <div
        className="cv-pane"
        ref={pane}
        tabIndex={-1}
        role="region"
        aria-label="Canvas"
        onDragOver={(event) => {
          if (event.dataTransfer.types.includes("application/x-canvas-node")) event.preventDefault();
        }}
        onDrop={(event) => {
          const type = event.dataTransfer.getData("application/x-canvas-node");
          if (type) add(type, flow.screenToFlowPosition({ x: event.clientX - NODE_WIDTH / 2, y: event.clientY - 30 }));
        }}
      >
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          onNodesChange={onNodesChange}
          onEdgesChange={onEdgesChange}
          onConnect={onConnect}
          onNodeClick={() => setTab("node")}
          nodesDraggable={mayBuild}
          nodesConnectable={mayBuild}
          deleteKeyCode={null}
          selectionKeyCode="Shift"
          multiSelectionKeyCode={["Meta", "Control"]}
          minZoom={0.05}
          maxZoom={2}
          fitView
          fitViewOptions={FIT}
          onlyRenderVisibleElements={nodes.length > 100}
          proOptions={{ hideAttribution: true }}
        >
          <Background gap={20} />
          {hasMap ? <MiniMap pannable zoomable ariaLabel="Map of the canvas" style={{ width: 140, height: 96 }} /> : null}
        </ReactFlow>
        {view.graph.nodes.length ? null : <Empty onAdd={() => setOverlay({ kind: "add" })} onTemplates={() => setOverlay({ kind: "templates" })} />}
      </div>
      <Panel tab={tab} onTab={setTab} onConnect={(from) => setOverlay({ kind: "connect", from })} onRun={(from) => setOverlay(from ? { kind: "run", from } : { kind: "run" })} />
      {overlay?.kind === "add" ? <Chooser title="Add a node" placeholder="Search node types" none="No type matches." choices={addable} onClose={close} onPick={(type) => { close(); add(type); }} /> : null}
      {overlay?.kind === "find" ? <Chooser title="Find a node" placeholder="Search nodes" none="No node matches." choices={listed} onClose={close} onPick={(id) => { close(); reveal(id); }} /> : null}
      {overlay?.kind === "connect" ? (
        <Chooser
          title={`Connect “${nameOf(overlay.from)}” to`}
          placeholder="Search nodes"
          none="No node matches."
          choices={listed.filter((one) => one.key !== overlay.from && kindOf(view.graph.nodes.find((node) => node.id === one.key)?.type ?? "", boot.plugins).hasIn)}
          onClose={close}
          onPick={(id) => {
            const source = view.graph.nodes.find((node) => node.id === overlay.from);
            close();
            if (source) connectNodes(source.id, id, freeHandle(view.graph, source) ?? "");
          }}
        />
      ) : null}
      {overlay?.kind === "templates" ? (
        <Chooser
          title="Start from a template"
          placeholder="Search templates"
          none="No template matches."
          choices={boot.templates.map((one) => ({ key: one.name, label: one.name, about: one.about, icon: "workflow" }))}
          onClose={close}
          onPick={(name) => {
            const template = boot.templates.find((one) => one.name === name);
            close();
            if (!template) return;
            const isEmpty = !view.graph.nodes.length;
            doc.change(`Insert “${name}”`, (graph) => (isEmpty ? layOut(template) : paste(graph, { switchyard: "canvas", ...layOut(template) }, COPY_SHIFT).graph));
            window.setTimeout(() => void flow.fitView(FIT), 100);
          }}
        />
      ) : null}
      {overlay?.kind === "run" ? <RunDialog from={overlay.from} fromName={overlay.from ? nameOf(overlay.from) : ""} onClose={close} onStarted={() => { close(); if (!overlay.from) setTab("runs"); }} /> : null}
      {overlay?.kind === "help" ? <Help onClose={close} /> : null}
    </div>
  );
}

/** Focus an element as soon as it is drawn. */
function focusSoon(find: () => HTMLElement | null | undefined): void {
  let tries = 0;
  const attempt = (): void => {
    const found = find();
    if (found) found.focus({ preventScroll: true });
    else if ((tries += 1) < 20) window.setTimeout(attempt, 25);
  };
  window.setTimeout(attempt, 0);
}

function Empty({ onAdd, onTemplates }: { onAdd: () => void; onTemplates: () => void }): ReactNode {
  const { boot } = useShared();
  return (
    <div className="cv-start">
      <h2>No workflow yet</h2>
      <p>For work with fixed steps: what starts it, what the agent, its tools and people do, and in which order.</p>
      {boot.may_build ? (
        <div className="cv-line">
          <button type="button" className="btn btn-primary btn-sm" onClick={onAdd}>Add a node</button>
          <button type="button" className="btn btn-quiet btn-sm" onClick={onTemplates}>Start from a template</button>
        </div>
      ) : null}
    </div>
  );
}

const KEYS: [string, string][] = [
  ["A", "Add a node, after the selected one"],
  ["C", "Connect the selected node"],
  ["Enter", "Configure the selected node"],
  ["Escape", "Back to the canvas, or clear the selection"],
  ["Tab", "Next node or connection"],
  ["[ and ]", "Previous and next node along the connections"],
  ["Arrow keys", "Move the selected nodes"],
  ["Delete", "Delete the selection"],
  ["Ctrl+C, Ctrl+X, Ctrl+V", "Copy, cut, paste"],
  ["Ctrl+D", "Duplicate"],
  ["Ctrl+A", "Select all"],
  ["Ctrl+Z, Ctrl+Shift+Z", "Undo, redo"],
  ["F", "Find a node"],
  ["T", "Tidy up"],
  ["R", "Run"],
  ["M", "Show or hide the map"],
  ["0, +, −", "Show all, zoom in, zoom out"],
];

function Help({ onClose }: { onClose: () => void }): ReactNode {
  return (
    <Chooser title="Keys of the canvas" placeholder="Search keys" none="No key matches." choices={KEYS.map(([keys, words]) => ({ key: keys, label: words, group: keys }))} onClose={onClose} onPick={onClose} />
  );
}
