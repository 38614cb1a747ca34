/** The side panel: the selected node, the runs, the problems and the history of the canvas. */
import { type ReactNode, useEffect, useId, useState } from "react";
import { changeConfig, changeNode, useCell, useRuns, useShared, useView } from "./context.ts";
import { Field, asText } from "./fields.tsx";
import { type CanvasEdge, type CanvasNode, type Clash, edgeKey } from "./graph.ts";
import { History } from "./history.tsx";
import { Icon } from "./icon.tsx";
import { kindOf, titleOf } from "./kinds.ts";
import { problemsByNode } from "./nodes.tsx";
import { NodeRun, Pinned, RunList } from "./run-panel.tsx";

export type Tab = "node" | "runs" | "problems" | "history";

interface PanelProps {
  tab: Tab;
  onTab: (tab: Tab) => void;
  onConnect: (id: string) => void;
  onRun: (from?: string) => void;
}

export function Panel({ tab, onTab, onConnect, onRun }: PanelProps): ReactNode {
  const shared = useShared();
  const view = useView();
  const selected = useCell(shared.selected);
  const chosen = selected.size === 1 ? view.graph.nodes.find((node) => selected.has(node.id)) : undefined;
  const errors = view.problems.length;
  const tabs: [Tab, string][] = [
    ["node", "Node"],
    ["runs", "Runs"],
    ["problems", errors ? `Problems (${errors})` : "Problems"],
    ["history", "History"],
  ];
  const onKey = (event: React.KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = tabs[(tabs.findIndex(([one]) => one === tab) + by + tabs.length) % tabs.length] as [Tab, string];
    event.preventDefault();
    onTab(next[0]);
    document.getElementById(`cv-tab-${next[0]}`)?.focus();
  };
  return (
    <aside className="cv-panel" aria-label="Details">
      <div className="cv-tabs" role="tablist" aria-label="Details" onKeyDown={onKey}>
        {tabs.map(([one, words]) => (
          <button key={one} type="button" role="tab" id={`cv-tab-${one}`} aria-selected={tab === one} aria-controls="cv-tab-panel" tabIndex={tab === one ? 0 : -1} onClick={() => onTab(one)}>{words}</button>
        ))}
      </div>
      <div className="cv-panel-body" role="tabpanel" id="cv-tab-panel" aria-labelledby={`cv-tab-${tab}`} tabIndex={-1}>
        {tab === "node" ? (
          chosen ? <NodeForm key={chosen.id} node={chosen} onConnect={onConnect} onRun={onRun} /> : <Nothing count={selected.size} />
        ) : null}
        {tab === "runs" ? <RunList /> : null}
        {tab === "problems" ? <Problems /> : null}
        {tab === "history" ? <History /> : null}
      </div>
    </aside>
  );
}

function Nothing({ count }: { count: number }): ReactNode {
  return <p className="cv-empty">{count ? `${count} nodes are selected.` : "Select a node to configure it, or press A to add one."}</p>;
}

function NodeForm({ node, onConnect, onRun }: { node: CanvasNode; onConnect: (id: string) => void; onRun: (from?: string) => void }): ReactNode {
  const shared = useShared();
  const view = useView();
  const { shown } = useRuns();
  const { boot } = shared;
  const kind = kindOf(node.type, boot.plugins);
  const problems = problemsByNode(view.problems).get(node.id) ?? [];
  const clashes = view.clashes.filter((one) => one.node === node.id);
  const id = useId();
  return (
    <>
      <p className="cv-panel-kind"><Icon name={kind.icon} /> {kind.label}</p>
      <p className="cv-help">{kind.about}</p>
      {problems.map((one) => (
        <p key={one.code + one.message} className={`cv-problem is-${one.level}`}><Icon name="triangle-alert" />{one.message}</p>
      ))}
      {clashes.map((clash) => <ClashNote key={clash.field} clash={clash} node={node} />)}
      <fieldset className="cv-form" disabled={!boot.may_build}>
        <legend className="sr-only">Configuration</legend>
        {node.type === "note" ? null : (
          <div className="cv-field">
            <div className="cv-field-head"><label htmlFor={id}>Name</label></div>
            <input id={id} data-node-name value={node.name} maxLength={120} autoComplete="off" placeholder={kind.label} onChange={(event) => changeNode(shared, node.id, "Rename", (one) => ({ ...one, name: event.target.value }), `${node.id}.name`)} />
          </div>
        )}
        {kind.fields.map((spec) => (
          <Field key={spec.name} spec={spec} node={node} set={(name, value) => changeConfig(shared, node, name, value)} />
        ))}
      </fieldset>
      {node.type === "trigger" ? <Triggers /> : null}
      {node.type === "note" ? null : <Connections node={node} onConnect={onConnect} />}
      {shown ? <NodeRun node={node} onRun={onRun} /> : node.pin ? <Pinned node={node} /> : null}
    </>
  );
}

/** Two people changed the same field: mine is kept, and theirs is one click away. */
function ClashNote({ clash, node }: { clash: Clash; node: CanvasNode }): ReactNode {
  const shared = useShared();
  const useTheirs = (): void => {
    if (clash.field === "name") changeNode(shared, node.id, "Use the other change", (one) => ({ ...one, name: String(clash.theirs) }));
    else if (clash.field === "pin") changeNode(shared, node.id, "Use the other change", (one) => ({ ...one, pin: clash.theirs as { output: unknown } }));
    else if (clash.field !== "type") changeConfig(shared, node, clash.field, clash.theirs);
    shared.doc.dismissClash(clash);
  };
  return (
    <div className="cv-clash" role="alert">
      <p>Someone else changed “{clash.field}” at the same time. Yours was kept. Theirs:</p>
      <pre className="cv-value">{asText(clash.theirs)}</pre>
      <button type="button" className="btn btn-quiet btn-sm" onClick={() => shared.doc.dismissClash(clash)}>Keep mine</button>
      <button type="button" className="btn btn-quiet btn-sm" onClick={useTheirs}>Use theirs</button>
    </div>
  );
}

function Connections({ node, onConnect }: { node: CanvasNode; onConnect: (id: string) => void }): ReactNode {
  const shared = useShared();
  const { graph } = useView();
  const { boot, doc } = shared;
  const outs = kindOf(node.type, boot.plugins).outs;
  const edges = graph.edges.filter((edge) => edge.source === node.id);
  const nameOf = (id: string): string => {
    const found = graph.nodes.find((one) => one.id === id);
    return found ? titleOf(found, boot.plugins) : id;
  };
  const change = (edge: CanvasEdge, more: Partial<CanvasEdge>): void =>
    doc.change("Change a connection", (now) => {
      const next = { ...edge, ...more };
      const others = now.edges.filter((one) => edgeKey(one) !== edgeKey(edge) && edgeKey(one) !== edgeKey(next));
      return { ...now, edges: [...others, next] };
    }, `${edgeKey(edge)}.label`);
  const remove = (edge: CanvasEdge): void =>
    doc.change("Remove a connection", (now) => ({ ...now, edges: now.edges.filter((one) => edgeKey(one) !== edgeKey(edge)) }));
  if (!outs.length) return null;
  return (
    <section className="cv-section" aria-label="Connections">
      <h3>Leads to</h3>
      {edges.map((edge) => (
        <div className="cv-edge" key={edge.target + edge.handle}>
          <span className="cv-edge-name">{nameOf(edge.target)}</span>
          {outs.length > 1 ? (
            <select aria-label={`Branch to ${nameOf(edge.target)}`} value={edge.handle} disabled={!boot.may_build} onChange={(event) => change(edge, { handle: event.target.value })}>
              {outs.map(([handle, words]) => <option key={handle} value={handle}>{words}</option>)}
              {outs.some(([handle]) => handle === edge.handle) ? null : <option value={edge.handle}>{edge.handle || "Choose…"}</option>}
            </select>
          ) : null}
          <button type="button" className="btn btn-bare btn-sm btn-square" disabled={!boot.may_build} aria-label={`Remove the connection to ${nameOf(edge.target)}`} onClick={() => remove(edge)}><Icon name="x" /></button>
        </div>
      ))}
      {edges.length ? null : <p className="cv-help">Nothing yet.</p>}
      {boot.may_build ? <button type="button" className="btn btn-quiet btn-sm" onClick={() => onConnect(node.id)}>Connect to…</button> : null}
    </section>
  );
}

function Triggers(): ReactNode {
  const { boot } = useShared();
  return (
    <section className="cv-section" aria-label="Triggers">
      <h3>Triggers</h3>
      {boot.triggers.map((one) => (
        <p key={one.id} className="cv-trigger">
          <Icon name={one.kind === "webhook" ? "webhook" : "calendar-clock"} />
          <a className="link-text" href={one.url}>{one.name}</a>
          <small>{one.is_paused ? "Paused" : one.when}</small>
        </p>
      ))}
      {boot.triggers.length ? null : <p className="cv-help">Nothing starts the published canvas by itself yet.</p>}
      {boot.may_build ? <a className="btn btn-quiet btn-sm" href={boot.urls.trigger_new}>Add a trigger</a> : null}
    </section>
  );
}

function Problems(): ReactNode {
  const shared = useShared();
  const { problems, graph } = useView();
  const [first, setFirst] = useState(true);
  useEffect(() => setFirst(false), []);
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  if (!problems.length) {
    return <p className="cv-empty" role={first ? undefined : "status"}><Icon name="circle-check" /> {graph.nodes.length ? "Ready to run." : "The canvas is empty."}</p>;
  }
  return (
    <ul className="cv-problems">
      {problems.map((one, nth) => {
        const node = one.node ? nodes.get(one.node) : undefined;
        return (
          <li key={`${one.node}${one.code}${nth}`} className={`is-${one.level}`}>
            <Icon name="triangle-alert" />
            <span>
              {node ? <button type="button" className="link-text" onClick={() => shared.reveal(node.id)}>{titleOf(node, shared.boot.plugins)}</button> : null} {one.message}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
