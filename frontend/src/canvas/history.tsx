/** The revisions of a canvas: who wrote them, what each differs in, and restoring one. */
import { type ReactNode, useEffect, useState } from "react";
import { useShared, useView } from "./context.ts";
import type { Author } from "./document.ts";
import { asText } from "./fields.tsx";
import { type CanvasEdge, compare, type Graph } from "./graph.ts";
import { titleOf } from "./kinds.ts";

interface Revision {
  number: number;
  author: Author;
  author_name: string;
  created_at: string;
}

interface WholeRevision extends Revision, Graph {}

export function History(): ReactNode {
  const { boot, rest, doc } = useShared();
  const view = useView();
  const [rows, setRows] = useState<Revision[]>([]);
  const [older, setOlder] = useState<string | null>(null);
  const [opened, setOpened] = useState<WholeRevision | null>(null);
  const [error, setError] = useState("");
  const guard = (act: () => Promise<void>): void => void act().catch((fault: Error) => setError(fault.message));

  useEffect(() => {
    guard(async () => {
      const page = await rest.get<{ results: Revision[]; next: string | null }>(`${boot.urls.canvas}history/?limit=50`);
      setRows(page.results);
      setOlder(page.next);
    });
  }, [boot, rest, view.revision]);

  const open = (number: number): void =>
    opened?.number === number ? setOpened(null) : guard(async () => setOpened(await rest.get(`${boot.urls.canvas}revisions/${number}/`)));
  const more = (): void =>
    guard(async () => {
      if (!older) return;
      const page = await rest.get<{ results: Revision[]; next: string | null }>(older);
      setRows([...rows, ...page.results]);
      setOlder(page.next);
    });
  const restore = (old: WholeRevision): void => {
    doc.change(`Restore r${old.number}`, () => ({ nodes: old.nodes, edges: old.edges }));
    setOpened(null);
  };
  return (
    <section className="cv-section" aria-label="Revisions">
      <h3>Revisions</h3>
      {error ? <p className="cv-wrong" role="alert">{error}</p> : null}
      {rows.length ? null : <p className="cv-help">Nothing has been saved yet.</p>}
      <ul className="cv-runs">
        {rows.map((row) => (
          <li key={row.number}>
            <button type="button" aria-expanded={opened?.number === row.number} onClick={() => open(row.number)}>
              <span className="cv-run">
                <span>{`r${row.number}`} {row.number === view.published ? <span className="tag">published</span> : null}{row.number === view.revision ? <span className="tag">newest</span> : null}</span>
                <small>{row.author_name} · {new Date(row.created_at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })}</small>
              </span>
            </button>
            {opened?.number === row.number ? (
              <div className="cv-diff">
                <Diff from={opened} to={view.graph} />
                {boot.may_build && row.number !== view.revision ? <button type="button" className="btn btn-quiet btn-sm" onClick={() => restore(opened)}>Restore this revision</button> : null}
              </div>
            ) : null}
          </li>
        ))}
      </ul>
      {older ? <button type="button" className="btn btn-bare btn-sm" onClick={more}>Older revisions</button> : null}
    </section>
  );
}

/** What changed from an old revision to the canvas as it is now. */
function Diff({ from, to }: { from: Graph; to: Graph }): ReactNode {
  const { boot } = useShared();
  const found = compare(from, to);
  const names = new Map([...from.nodes, ...to.nodes].map((node) => [node.id, titleOf(node, boot.plugins)]));
  const edge = (one: CanvasEdge): string => `${names.get(one.source) ?? one.source} → ${names.get(one.target) ?? one.target}${one.handle ? ` (${one.handle})` : ""}`;
  const lines: [string, string][] = [
    ...found.added.map((node): [string, string] => ["added", `Added ${titleOf(node, boot.plugins)}`]),
    ...found.removed.map((node): [string, string] => ["removed", `Removed ${titleOf(node, boot.plugins)}`]),
    ...found.edgesAdded.map((one): [string, string] => ["added", `Connected ${edge(one)}`]),
    ...found.edgesRemoved.map((one): [string, string] => ["removed", `Disconnected ${edge(one)}`]),
    ...(found.moved ? ([["moved", `Moved ${found.moved} ${found.moved === 1 ? "node" : "nodes"}`]] as [string, string][]) : []),
  ];
  if (!lines.length && !found.changed.length) return <p className="cv-help">Nothing differs from the canvas as it is now.</p>;
  return (
    <>
      <p className="cv-help">Since then:</p>
      <ul>{lines.map(([kind, words]) => <li key={words} className={`is-${kind}`}>{words}</li>)}</ul>
      {found.changed.map(({ node, fields }) => (
        <div key={node.id}>
          <p>Changed {titleOf(node, boot.plugins)}</p>
          {fields.map((field) => (
            <p key={field.name} className="cv-change"><small>{field.name}</small> <del>{asText(field.before) || "empty"}</del> <ins>{asText(field.after) || "empty"}</ins></p>
          ))}
        </div>
      ))}
    </>
  );
}
