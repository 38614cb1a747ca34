/** How nodes look: their type, name, what they do, what is wrong, and their state in the shown run. */
import { Handle, type Node as FlowNodeOf, type NodeProps, Position } from "@xyflow/react";
import { memo, type ReactNode, useSyncExternalStore } from "react";
import { usePart, useShared } from "./context.ts";
import type { Problem } from "./document.ts";
import type { CanvasNode } from "./graph.ts";
import { Icon } from "./icon.tsx";
import { kindOf, summaryOf, titleOf } from "./kinds.ts";
import type { NodeState } from "./runs.ts";

export type FlowNode = FlowNodeOf<{ node: CanvasNode }, "step" | "note">;

/** The handle that stands for edges without one. */
export const OUT = "out";

const byProblems = new WeakMap<Problem[], Map<string, Problem[]>>();

/** Group the problems by node, once per list. */
export function problemsByNode(problems: Problem[]): Map<string, Problem[]> {
  const known = byProblems.get(problems);
  if (known) return known;
  const found = new Map<string, Problem[]>();
  for (const one of problems) if (one.node) found.set(one.node, [...(found.get(one.node) ?? []), one]);
  byProblems.set(problems, found);
  return found;
}

export const STATUS_WORDS: Record<NodeState["status"] | "queued" | "paused" | "terminated", [lamp: string, words: string]> = {
  queued: ["is-waiting", "Queued"],
  running: ["is-running", "Running"],
  waiting: ["is-waiting", "Waiting"],
  waiting_approval: ["is-waiting", "Needs approval"],
  paused: ["is-waiting", "Paused"],
  complete: ["is-done", "Done"],
  errored: ["is-failed", "Failed"],
  terminated: ["is-unknown", "Stopped"],
  skipped: ["is-skipped", "Skipped"],
};

export function statusWords(status: string): [lamp: string, words: string] {
  return STATUS_WORDS[status as NodeState["status"]] ?? ["is-unknown", status];
}

export function took(state: { started_at: string; finished_at: string | null }): string {
  if (!state.finished_at) return "";
  const ms = Date.parse(state.finished_at) - Date.parse(state.started_at);
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export function dollars(cost: string | null | undefined): string {
  const value = Number(cost ?? 0);
  return value ? `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(2)}` : "";
}

function useProblems(id: string): Problem[] | undefined {
  const { doc } = useShared();
  return useSyncExternalStore(doc.subscribe, () => problemsByNode(doc.view.problems).get(id));
}

function usePeerNames(id: string): string {
  const { peers } = useShared();
  return usePart(peers, (list) => list.filter((peer) => peer.node === id).map((peer) => peer.name).join(", "));
}

const Step = memo(function Step({ id, data, selected }: NodeProps<FlowNode>): ReactNode {
  const { boot, runs } = useShared();
  const state = usePart(runs.view, (view) => view.states[id]);
  const problems = useProblems(id);
  const peers = usePeerNames(id);
  const { node } = data;
  const kind = kindOf(node.type, boot.plugins);
  const level = problems?.some((one) => one.level === "error") ? "error" : problems ? "warning" : "";
  const summary = summaryOf(node, boot.agents);
  return (
    <div className={`cv-node is-${node.type}${selected ? " is-selected" : ""}${peers ? " has-peer" : ""}`} data-state={state?.status} data-level={level || undefined}>
      {kind.hasIn ? <Handle type="target" position={Position.Left} /> : null}
      <div className="cv-node-head">
        <Icon name={kind.icon} />
        <span className="cv-node-kind">{kind.label}</span>
        {node.pin ? <span className="cv-node-pin"><Icon name="pin" /><span className="sr-only">Pinned</span></span> : null}
        {level ? <span className={`cv-node-problem is-${level}`} title={problems?.map((one) => one.message).join("\n")}><Icon name="triangle-alert" /></span> : null}
      </div>
      <div className="cv-node-name">{node.name || kind.label}</div>
      {summary ? <div className="cv-node-summary">{summary}</div> : null}
      {state ? <Lamp state={state} /> : null}
      {peers ? <span className="cv-node-peer">{peers}</span> : null}
      {kind.outs.map(([handle, words], nth) => (
        <Handle key={handle || OUT} type="source" id={handle || OUT} position={Position.Right} style={kind.outs.length > 1 ? { top: `${30 + nth * 40}%` } : undefined} title={words || undefined} />
      ))}
    </div>
  );
});

function Lamp({ state }: { state: NodeState }): ReactNode {
  const [lamp, words] = statusWords(state.status);
  const facts = [state.is_given ? "Given" : words, state.is_given ? "" : took(state), dollars(state.cost)];
  return (
    <div className="cv-node-state">
      <span className={`state ${lamp}`}>{facts.filter(Boolean).join(" · ")}</span>
      {state.error ? <span className="cv-node-error">{state.error.message}</span> : state.preview ? <span className="cv-node-preview">{state.preview}</span> : null}
    </div>
  );
}

const Note = memo(function Note({ id, data, selected }: NodeProps<FlowNode>): ReactNode {
  const peers = usePeerNames(id);
  return (
    <div className={`cv-note${selected ? " is-selected" : ""}${peers ? " has-peer" : ""}`}>
      {String(data.node.config["text"] ?? "") || "Empty comment"}
      {peers ? <span className="cv-node-peer">{peers}</span> : null}
    </div>
  );
});

export const NODE_TYPES = { step: Step, note: Note };

/** What screen readers say about a node. */
export function ariaLabelOf(node: CanvasNode, plugins: Parameters<typeof titleOf>[1]): string {
  const title = titleOf(node, plugins);
  const label = kindOf(node.type, plugins).label;
  return title === label ? label : `${title}, ${label}`;
}
