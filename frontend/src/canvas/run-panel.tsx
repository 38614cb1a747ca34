/** Runs in the side panel: the last ones, one node of the shown run, and the form that starts one. */
import { type ReactNode, useEffect, useState } from "react";
import { Dialog } from "./chooser.tsx";
import { changeNode, useRuns, useShared, useView } from "./context.ts";
import { Area, Line, Select, asText, typesOf } from "./fields.tsx";
import type { CanvasNode } from "./graph.ts";
import type { Schema } from "./kinds.ts";
import { dollars, statusWords, took } from "./nodes.tsx";
import { isOver, type NodeDetail, type Run } from "./runs.ts";

function when(at: string): string {
  return new Date(at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function RunList(): ReactNode {
  const { runs, boot } = useShared();
  const { list, shown, error } = useRuns();
  useEffect(() => void runs.load(), [runs]);
  return (
    <>
      {error ? <p className="cv-wrong" role="alert">{error}</p> : null}
      {shown ? (
        <section className="cv-section" aria-label="Shown run">
          <h3>Shown on the canvas</h3>
          <RunFacts run={shown} />
          {shown.error ? <p className="cv-problem is-error">{shown.error.message}</p> : null}
          <div className="cv-line">
            <a className="btn btn-quiet btn-sm" href={`${boot.urls.workflows}${shown.workflow_id}/`}>Open the run</a>
            {isOver(shown) ? null : <button type="button" className="btn btn-quiet btn-sm" disabled={!boot.may_run} onClick={() => void runs.stop(shown.workflow_id)}>Stop</button>}
            <button type="button" className="btn btn-bare btn-sm" onClick={() => void runs.show(null)}>Hide</button>
          </div>
        </section>
      ) : null}
      <section className="cv-section" aria-label="Last runs">
        <h3>Last runs</h3>
        {list.length ? null : <p className="cv-help">This canvas has not run yet.</p>}
        <ul className="cv-runs">
          {list.map((run) => (
            <li key={run.workflow_id}>
              <button type="button" aria-pressed={run.workflow_id === shown?.workflow_id} onClick={() => void runs.show(run.workflow_id)}>
                <RunFacts run={run} />
              </button>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

function RunFacts({ run }: { run: Run }): ReactNode {
  const [lamp, words] = statusWords(run.status);
  const facts = [when(run.created_at), took({ started_at: run.created_at, finished_at: run.finished_at }), `${run.is_test ? "test of" : "published"} r${run.revision}`];
  return (
    <span className="cv-run">
      <span className={`state ${lamp}`}>{words}</span>
      <small>{facts.filter(Boolean).join(" · ")}</small>
    </span>
  );
}

/** What one node received and returned in the shown run. */
export function NodeRun({ node, onRun }: { node: CanvasNode; onRun: (from?: string) => void }): ReactNode {
  const shared = useShared();
  const { runs, boot } = shared;
  const { shown, states } = useRuns();
  const state = states[node.id];
  const [detail, setDetail] = useState<NodeDetail | null>(null);
  const [error, setError] = useState("");
  const id = shown?.workflow_id;
  useEffect(() => {
    if (!id || !state) return setDetail(null);
    let isGone = false;
    runs.detail(id, node.id).then(
      (found) => !isGone && (setDetail(found), setError("")),
      (fault: Error) => !isGone && setError(fault.message),
    );
    return () => {
      isGone = true;
    };
  }, [runs, id, node.id, state]);
  if (!state || !id || node.type === "note") return null;
  const pin = (): void =>
    changeNode(shared, node.id, "Pin the output", (one) => ({ ...one, pin: { output: detail?.output ?? null } }));
  const [lamp, words] = statusWords(state.status);
  return (
    <>
      <section className="cv-section" aria-label="In this run">
        <h3>In this run</h3>
        <p><span className={`state ${lamp}`}>{[words, took(state), dollars(state.cost)].filter(Boolean).join(" · ")}</span></p>
        {state.is_given ? <p className="cv-help">The output was given, and the node did not run.</p> : null}
        {error ? <p className="cv-wrong" role="alert">{error}</p> : null}
        {state.error ? <p className="cv-problem is-error">{state.error.message}</p> : null}
        {state.status === "waiting_approval" && detail ? <Answer run={id} step={detail.approval_step} /> : null}
        {detail && detail.input !== null ? <Value title="Input" value={detail.input} /> : null}
        {detail?.has_output ? <Value title="Output" value={detail.output} /> : null}
        {(detail?.attempts ?? []).map((one) => (
          <p key={one.number} className="cv-help">Attempt {one.number}: {one.status.replaceAll("_", " ")}{one.error ? `, ${one.error.message}` : ""}</p>
        ))}
        <div className="cv-line">
          {detail?.session_id ? <a className="btn btn-quiet btn-sm" href={`${boot.urls.sessions}${detail.session_id}/`}>Open the conversation</a> : null}
          {detail?.has_output && boot.may_build && !node.pin ? <button type="button" className="btn btn-quiet btn-sm" onClick={pin}>Pin this output</button> : null}
          {boot.may_build && boot.may_run && node.type !== "trigger" ? <button type="button" className="btn btn-quiet btn-sm" onClick={() => onRun(node.id)}>Run from here</button> : null}
        </div>
      </section>
      {node.pin ? <Pinned node={node} /> : null}
    </>
  );
}

export function Pinned({ node }: { node: CanvasNode }): ReactNode {
  const shared = useShared();
  const unpin = (): void =>
    changeNode(shared, node.id, "Unpin the output", ({ pin: _, ...rest }) => rest);
  return (
    <section className="cv-section" aria-label="Pinned output">
      <h3>Pinned output</h3>
      <p className="cv-help">Test runs use this output and do not run the node. Published runs ignore it.</p>
      <pre className="cv-value">{asText(node.pin?.output)}</pre>
      <button type="button" className="btn btn-quiet btn-sm" onClick={unpin}>Unpin</button>
    </section>
  );
}

function Answer({ run, step }: { run: string; step: string }): ReactNode {
  const { runs, boot } = useShared();
  const [error, setError] = useState("");
  const answer = (verdict: "approve" | "reject"): void =>
    void runs.answer(run, verdict, step).catch((fault: Error) => setError(fault.message));
  return (
    <div className="cv-line" role="group" aria-label="Answer">
      <button type="button" className="btn btn-quiet btn-sm" disabled={!boot.may_run} onClick={() => answer("approve")}>Approve</button>
      <button type="button" className="btn btn-quiet btn-sm" disabled={!boot.may_run} onClick={() => answer("reject")}>Reject</button>
      {error ? <p className="cv-wrong" role="alert">{error}</p> : null}
    </div>
  );
}

function Value({ title, value }: { title: string; value: unknown }): ReactNode {
  return (
    <div className="cv-output">
      <h4>{title}</h4>
      <pre className="cv-value" tabIndex={0} aria-label={title}>{value === null ? "null" : asText(value)}</pre>
    </div>
  );
}

// --- Starting

interface RunDialogProps {
  from: string | undefined;
  fromName: string;
  onClose: () => void;
  onStarted: () => void;
}

/** The start form: a field per property of the trigger's schema, or JSON without one. */
export function RunDialog({ from, fromName, onClose, onStarted }: RunDialogProps): ReactNode {
  const { boot, doc, runs } = useShared();
  const view = useView();
  const { list, shown } = useRuns();
  const schema = (view.graph.nodes.find((node) => node.type === "trigger")?.config["schema"] ?? null) as Schema | null;
  const fields = Object.entries(schema?.properties ?? {});
  const last = shown ?? list[0];
  const [values, setValues] = useState<Record<string, string>>(() => initialOf(schema, last?.input));
  const [text, setText] = useState(() => (last && last.input !== null ? asText(last.input) : ""));
  const [which, setWhich] = useState<"test" | "run">(boot.may_build ? "test" : "run");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: React.FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      if (which === "run" && !from) await runs.start("run", { input: inputOf(schema, values, text) });
      else {
        if (!(await doc.settle())) throw new Error(doc.view.error || "The canvas is not saved yet.");
        const start = from ? { from_node: from, from_run: shown?.workflow_id ?? null } : {};
        await runs.start("test", { input: inputOf(schema, values, text), revision: doc.view.revision, ...start });
      }
      onStarted();
    } catch (fault) {
      setError((fault as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={from ? `Run from “${fromName}”` : "Run the canvas"} onClose={onClose}>
      <form className="cv-form" onSubmit={(event) => void submit(event)}>
        {from ? <p className="cv-help">Earlier nodes keep their outputs of the shown run, or their pinned outputs.</p> : null}
        {!from && boot.may_build && view.published ? (
          <Select label="What to run" value={which} options={[["test", `This draft (r${view.revision}), as a test`], ["run", `The published revision (r${view.published})`]]} onChange={(next) => setWhich(next as "test" | "run")} />
        ) : null}
        {fields.map(([name, one]) => (
          <InputField key={name} schema={one} label={`${one.title ?? name}${schema?.required?.includes(name) ? "" : " (optional)"}`} isRequired={schema?.required?.includes(name) ?? false} value={values[name] ?? ""} onChange={(next) => setValues({ ...values, [name]: next })} />
        ))}
        {fields.length ? null : <Area label="Input" rows={4} isCode value={text} help="Text, or JSON. It may stay empty." onChange={setText} />}
        {error ? <p className="cv-wrong" role="alert">{error}</p> : null}
        <div className="cv-line is-end">
          <button type="button" className="btn btn-bare btn-sm" onClick={onClose}>Cancel</button>
          <button type="submit" className="btn btn-primary btn-sm" disabled={isBusy}>Run</button>
        </div>
      </form>
    </Dialog>
  );
}

function InputField({ schema, label, value, onChange, isRequired }: { schema: Schema; label: string; value: string; onChange: (value: string) => void; isRequired: boolean }): ReactNode {
  const types = typesOf(schema);
  if (schema.enum) return <Select label={label} value={value} help={schema.description} options={[["", "Choose…"], ...schema.enum.map((one): [string, string] => [String(one), String(one)])]} onChange={onChange} />;
  if (types.includes("boolean")) return <Select label={label} value={value} help={schema.description} options={[["", "Choose…"], ["true", "Yes"], ["false", "No"]]} onChange={onChange} />;
  if (types.includes("array") || types.includes("object")) return <Area label={label} value={value} help={schema.description ?? "JSON"} isCode isRequired={isRequired} onChange={onChange} />;
  const isNumber = types.includes("integer") || types.includes("number");
  return isNumber ? (
    <Line label={label} type="number" value={value} help={schema.description} isRequired={isRequired} onChange={onChange} />
  ) : (
    <Area label={label} rows={2} value={value} help={schema.description} isRequired={isRequired} onChange={onChange} />
  );
}

function initialOf(schema: Schema | null, last: unknown): Record<string, string> {
  const before = (last && typeof last === "object" && !Array.isArray(last) ? last : {}) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(schema?.properties ?? {}).map(([name, one]) => [name, asText(before[name] ?? one.default)]),
  );
}

/** Return what was typed as the input of a run. Raise, in plain words, if a field is not what it must be. */
function inputOf(schema: Schema | null, values: Record<string, string>, text: string): unknown {
  const fields = Object.entries(schema?.properties ?? {});
  if (!fields.length) {
    if (!text.trim()) return null;
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  const input: Record<string, unknown> = {};
  for (const [name, one] of fields) {
    const value = values[name] ?? "";
    if (value === "") continue;
    const types = typesOf(one);
    if (one.enum) input[name] = one.enum.find((each) => String(each) === value);
    else if (types.includes("boolean")) input[name] = value === "true";
    else if (types.includes("integer") || types.includes("number")) input[name] = Number(value);
    else if (types.includes("array") || types.includes("object")) {
      try {
        input[name] = JSON.parse(value);
      } catch {
        throw new Error(`${one.title ?? name} is not valid JSON.`);
      }
    } else input[name] = value;
  }
  return input;
}
