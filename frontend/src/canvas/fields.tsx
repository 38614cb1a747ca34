/** The fields of the side panel. Every value can hold `{{paths}}` to the input and earlier nodes. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { type ToolInfo, useShared, useView } from "./context.ts";
import { before, type CanvasNode, isSame } from "./graph.ts";
import { type FieldSpec, KINDS, type Schema, titleOf } from "./kinds.ts";

export interface FieldProps {
  label: string;
  value: unknown;
  onChange: (value: unknown) => void;
  node: CanvasNode;
  help?: string | undefined;
  placeholder?: string | undefined;
  /** Values besides the input and earlier nodes, such as the item of a loop. */
  extra?: [path: string, label: string][] | undefined;
}

function Box({ id, label, help, end, children }: { id: string; label: string; help?: string | undefined; end?: ReactNode; children: ReactNode }): ReactNode {
  return (
    <div className="cv-field">
      <div className="cv-field-head">
        <label htmlFor={id}>{label}</label>
        {end}
      </div>
      {children}
      {help ? <p className="cv-help" id={`${id}-help`}>{help}</p> : null}
    </div>
  );
}

/** Return what a node can refer to: the input, and the output of each node before it. */
function usePaths(node: CanvasNode, extra: FieldProps["extra"]): [path: string, label: string][] {
  const { boot } = useShared();
  const { graph } = useView();
  const start = graph.nodes.find((one) => one.type === "trigger");
  const fields = Object.entries(((start?.config["schema"] ?? {}) as Schema).properties ?? {});
  return [
    ...(extra ?? []),
    ["input", "The whole input"],
    ...fields.map(([name, schema]): [string, string] => [`input.${name}`, `Input: ${schema.title ?? name}`]),
    ...before(graph, node.id)
      .filter((one) => one.type !== "trigger")
      .map((one): [string, string] => [`nodes.${one.id}.output`, `Result of ${titleOf(one, boot.plugins)}`]),
  ];
}

/** A menu that inserts a path; a native select works by keyboard everywhere. */
function Insert({ node, extra, label, onPick }: { node: CanvasNode; extra: FieldProps["extra"]; label: string; onPick: (path: string) => void }): ReactNode {
  const paths = usePaths(node, extra);
  return (
    <select
      className="cv-insert"
      aria-label={`Insert a value into ${label}`}
      value=""
      onChange={(event) => onPick(event.target.value)}
    >
      <option value="">Insert value…</option>
      {paths.map(([path, words]) => (
        <option key={path} value={path}>{words}</option>
      ))}
    </select>
  );
}

export function asText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

interface TemplateProps extends FieldProps {
  rows?: number;
  /** Whether paths are inserted without braces, as in a condition. */
  isBare?: boolean;
  isCode?: boolean;
  read?: (text: string) => unknown;
}

/** A text with `{{paths}}`. Inserting puts the path where the cursor is. */
export function Template({ label, value, onChange, node, help, placeholder, extra, rows = 4, isBare, isCode, read }: TemplateProps): ReactNode {
  const id = useId();
  const box = useRef<HTMLTextAreaElement | HTMLInputElement | null>(null);
  const text = asText(value);
  const put = (next: string): void => onChange(next === "" ? undefined : read ? read(next) : next);
  const insert = (path: string): void => {
    if (!path) return;
    const words = isBare ? path : `{{${path}}}`;
    const [from, to] = [box.current?.selectionStart ?? text.length, box.current?.selectionEnd ?? text.length];
    put(text.slice(0, from) + words + text.slice(to));
    box.current?.focus();
  };
  const facts = {
    id,
    value: text,
    placeholder,
    className: isCode ? "cv-code" : undefined,
    spellCheck: isCode ? false : undefined,
    "aria-describedby": help ? `${id}-help` : undefined,
    onChange: (event: { target: { value: string } }) => put(event.target.value),
  };
  return (
    <Box id={id} label={label} help={help} end={<Insert node={node} extra={extra} label={label} onPick={insert} />}>
      {rows === 1 ? (
        <input {...facts} type="text" autoComplete="off" ref={(found) => void (box.current = found)} />
      ) : (
        <textarea {...facts} rows={rows} ref={(found) => void (box.current = found)} />
      )}
    </Box>
  );
}

/** JSON, or text that is not JSON; what is typed is kept as long as it means the same value. */
export function JsonField(props: FieldProps & { strict?: boolean }): ReactNode {
  const { value, onChange, strict } = props;
  const [typed, setTyped] = useState(asText(value));
  const [wrong, setWrong] = useState("");
  const given = useRef(value);
  useEffect(() => {
    if (isSame(given.current, value)) return;
    given.current = value;
    setTyped(asText(value));
    setWrong("");
  }, [value]);
  const put = (text: unknown): void => {
    const words = String(text ?? "");
    setTyped(words);
    const looksLikeJson = strict || /^\s*([[{"]|-?\d|true\b|false\b|null\b)/.test(words);
    try {
      given.current = words.trim() === "" ? undefined : looksLikeJson ? JSON.parse(words) : words;
      setWrong("");
    } catch {
      if (strict) return setWrong("This is not valid JSON.");
      given.current = words;
    }
    onChange(given.current);
  };
  return (
    <>
      <Template {...props} value={typed} onChange={put} isCode rows={Math.min(10, Math.max(3, typed.split("\n").length))} />
      {wrong ? <p className="cv-wrong" role="alert">{wrong}</p> : null}
    </>
  );
}

export function Select({ label, value, onChange, options, help }: { label: string; value: string; onChange: (value: string) => void; options: [string, string][]; help?: string | undefined }): ReactNode {
  const id = useId();
  const isKnown = options.some(([one]) => one === value);
  return (
    <Box id={id} label={label} help={help}>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {isKnown ? null : <option value={value}>{value ? `${value} (not available)` : "Choose…"}</option>}
        {options.map(([one, words]) => (
          <option key={one} value={one}>{words}</option>
        ))}
      </select>
    </Box>
  );
}

export function Line({ label, value, onChange, help, placeholder, type = "text", isRequired }: { label: string; value: string; onChange: (value: string) => void; help?: string | undefined; placeholder?: string | undefined; type?: string; isRequired?: boolean }): ReactNode {
  const id = useId();
  return (
    <Box id={id} label={label} help={help}>
      <input id={id} type={type} value={value} placeholder={placeholder} required={isRequired} autoComplete="off" aria-describedby={help ? `${id}-help` : undefined} onChange={(event) => onChange(event.target.value)} />
    </Box>
  );
}

export function Area({ label, value, onChange, help, rows = 4, isCode, isRequired }: { label: string; value: string; onChange: (value: string) => void; help?: string | undefined; rows?: number; isCode?: boolean; isRequired?: boolean }): ReactNode {
  const id = useId();
  return (
    <Box id={id} label={label} help={help}>
      <textarea id={id} rows={rows} value={value} required={isRequired} className={isCode ? "cv-code" : undefined} spellCheck={isCode ? false : undefined} onChange={(event) => onChange(event.target.value)} />
    </Box>
  );
}

// --- Pickers

export function ToolPicker({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }): ReactNode {
  const { boot } = useShared();
  const id = useId();
  const groups = new Map<string, typeof boot.tools>();
  for (const tool of boot.tools) groups.set(tool.category, [...(groups.get(tool.category) ?? []), tool]);
  const chosen = boot.tools.find((tool) => tool.name === value);
  return (
    <Box id={id} label={label} help={chosen?.description.split("\n")[0]}>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {chosen ? null : <option value={value}>{value ? `${value} (not available)` : "Choose a tool…"}</option>}
        {[...groups].map(([group, tools]) => (
          <optgroup key={group} label={group}>
            {tools.map((tool) => (
              <option key={tool.name} value={tool.name}>{tool.title} ({tool.name})</option>
            ))}
          </optgroup>
        ))}
      </select>
    </Box>
  );
}

/** One field per property of a JSON Schema; each takes a value or a template. */
export function SchemaForm({ schema, value, onChange, node, extra }: { schema: Schema; value: Record<string, unknown>; onChange: (value: Record<string, unknown> | undefined) => void; node: CanvasNode; extra?: FieldProps["extra"] }): ReactNode {
  const required = new Set(schema.required ?? []);
  const put = (name: string, next: unknown): void => {
    const all = { ...value, [name]: next };
    if (next === undefined) delete all[name];
    onChange(Object.keys(all).length ? all : undefined);
  };
  return Object.entries(schema.properties ?? {}).map(([name, one]) => {
    const label = `${one.title ?? name.replaceAll("_", " ")}${required.has(name) ? "" : " (optional)"}`;
    const facts = { label, value: value[name], onChange: (next: unknown) => put(name, next), node, help: one.description, extra };
    const choices = one.enum?.map(String) ?? (typesOf(one).includes("boolean") ? ["true", "false"] : null);
    if (choices && (value[name] === undefined || choices.includes(String(value[name])))) {
      return (
        <Select
          key={name}
          label={label}
          value={value[name] === undefined ? "" : String(value[name])}
          help={one.description}
          options={[["", "Default"], ...choices.map((choice): [string, string] => [choice, choice])]}
          onChange={(next) => put(name, next === "" ? undefined : one.enum ? one.enum.find((each) => String(each) === next) : next === "true")}
        />
      );
    }
    if (typesOf(one).some((type) => type === "array" || type === "object")) return <JsonField key={name} {...facts} />;
    const isNumber = typesOf(one).some((type) => type === "integer" || type === "number");
    return <Template key={name} {...facts} rows={isNumber || one.enum ? 1 : 2} {...(isNumber ? { read: numberOrText } : {})} />;
  });
}

export function typesOf(schema: Schema): string[] {
  const own = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : [];
  return [...own, ...(schema.anyOf ?? []).flatMap(typesOf)];
}

function numberOrText(text: string): unknown {
  return /^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text;
}

/** Names and values, such as the headers of a request. */
function Pairs({ label, value, onChange, help }: FieldProps): ReactNode {
  const pairs = Object.entries((value ?? {}) as Record<string, unknown>);
  const put = (next: [string, unknown][]): void => onChange(next.length ? Object.fromEntries(next) : undefined);
  return (
    <fieldset className="cv-set">
      <legend>{label}</legend>
      {pairs.map(([name, one], nth) => (
        <div className="cv-pair" key={nth}>
          <input aria-label={`${label}: name ${nth + 1}`} value={name} onChange={(event) => put(pairs.map((pair, at) => (at === nth ? [event.target.value, pair[1]] : pair)))} />
          <input aria-label={`${label}: value ${nth + 1}`} value={String(one)} onChange={(event) => put(pairs.map((pair, at) => (at === nth ? [pair[0], event.target.value] : pair)))} />
          <button type="button" className="btn btn-bare btn-sm" aria-label={`Remove ${name || "this line"}`} onClick={() => put(pairs.filter((_, at) => at !== nth))}>Remove</button>
        </div>
      ))}
      <button type="button" className="btn btn-quiet btn-sm" onClick={() => put([...pairs, ["", ""]])}>Add a line</button>
      {help ? <p className="cv-help">{help}</p> : null}
    </fieldset>
  );
}

/** The builder of a start form: a list of fields, kept as a JSON Schema. */
function SchemaBuilder({ label, value, onChange, help }: FieldProps): ReactNode {
  const schema = (value ?? {}) as Schema;
  const fields = Object.entries(schema.properties ?? {});
  const required = new Set(schema.required ?? []);
  const put = (next: [string, Schema][], must: Iterable<string>): void => {
    const names = new Set(next.map(([name]) => name));
    onChange(next.length ? { type: "object", properties: Object.fromEntries(next), required: [...must].filter((name) => names.has(name)) } : undefined);
  };
  const rename = (from: string, to: string): void => {
    if (!/^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(to) || fields.some(([name]) => name === to)) return;
    put(fields.map(([name, one]) => [name === from ? to : name, one]), [...required].map((name) => (name === from ? to : name)));
  };
  const change = (name: string, more: Schema): void => put(fields.map(([one, was]) => [one, one === name ? { ...was, ...more } : was]), required);
  const add = (): void => {
    let nth = fields.length + 1;
    while (fields.some(([name]) => name === `field_${nth}`)) nth += 1;
    put([...fields, [`field_${nth}`, { type: "string", title: `Field ${nth}` }]], required);
  };
  return (
    <fieldset className="cv-set">
      <legend>{label}</legend>
      {help ? <p className="cv-help">{help}</p> : null}
      {fields.map(([name, one]) => (
        <div className="cv-formfield" key={name}>
          <Line label="Label" value={one.title ?? ""} onChange={(title) => change(name, { title })} />
          <NameField name={name} onChange={(to) => rename(name, to)} />
          <Select label="Type" value={one.enum ? "choice" : String(one.type ?? "string")} options={[["string", "Text"], ["number", "Number"], ["integer", "Whole number"], ["boolean", "Yes or no"], ["choice", "Choice"], ["array", "List"], ["object", "Object"]]} onChange={(type) => put(fields.map(([key, was]) => [key, key === name ? typed(was, type) : was]), required)} />
          {one.enum ? <Line label="Choices, separated by commas" value={one.enum.map(String).join(", ")} onChange={(text) => change(name, { enum: text.split(",").map((each) => each.trim()) })} /> : null}
          <div className="cv-line">
            <label className="cv-check"><input type="checkbox" checked={required.has(name)} onChange={(event) => put(fields, event.target.checked ? [...required, name] : [...required].filter((each) => each !== name))} /> Required</label>
            <button type="button" className="btn btn-bare btn-sm" aria-label={`Remove the field ${one.title ?? name}`} onClick={() => put(fields.filter(([each]) => each !== name), required)}>Remove</button>
          </div>
        </div>
      ))}
      <button type="button" className="btn btn-quiet btn-sm" onClick={add}>Add a field</button>
    </fieldset>
  );
}

function typed(was: Schema, type: string): Schema {
  const { enum: _, ...rest } = was;
  return type === "choice" ? { ...rest, type: "string", enum: ["First", "Second"] } : { ...rest, type };
}

/** A name is applied when the field is left, as half a name is not one yet. */
function NameField({ name, onChange }: { name: string; onChange: (name: string) => void }): ReactNode {
  const [text, setText] = useState(name);
  const id = useId();
  return (
    <Box id={id} label="Name" help="Letters, digits and _ only.">
      <input id={id} value={text} autoComplete="off" onChange={(event) => setText(event.target.value)} onBlur={() => (text === name ? undefined : onChange(text))} />
    </Box>
  );
}

const UNITS: [string, string, number][] = [
  ["1", "seconds", 1],
  ["60", "minutes", 60],
  ["3600", "hours", 3600],
  ["86400", "days", 86400],
];

function Wait({ node, set }: { node: CanvasNode; set: (name: string, value: unknown) => void }): ReactNode {
  const isEvent = node.config["event"] !== undefined;
  const seconds = Number(node.config["seconds"] ?? 0);
  const [unit, setUnit] = useState(() => UNITS.findLast(([, , size]) => seconds >= size && seconds % size === 0)?.[0] ?? "1");
  const size = Number(unit);
  return (
    <>
      <Select label="Wait" value={isEvent ? "event" : "time"} options={[["time", "For a time"], ["event", "For an event"]]} onChange={(kind) => set("event", kind === "event" ? "" : undefined)} />
      {isEvent ? <Line label="Event" value={String(node.config["event"] ?? "")} placeholder="payment.received" help="The type of the event that is sent to the run." onChange={(event) => set("event", event)} /> : null}
      <div className="cv-line">
        <Line label={isEvent ? "At most" : "Time"} type="number" value={node.config["seconds"] === undefined ? "" : String(seconds / size)} onChange={(text) => set("seconds", text === "" ? undefined : Number(text) * size)} />
        <Select label="Unit" value={unit} options={UNITS.map(([value, words]) => [value, words])} onChange={(next) => { setUnit(next); if (node.config["seconds"] !== undefined) set("seconds", (seconds / size) * Number(next)); }} />
      </div>
    </>
  );
}

/** What a loop does for each item: the fields of another type of node. */
function Body({ node, value, onChange }: FieldProps): ReactNode {
  const body = (value ?? {}) as { type?: string; config?: Record<string, unknown> };
  const config = body.config ?? {};
  const inner: CanvasNode = { ...node, type: body.type ?? "", config };
  // One choice may set several values in a row.
  const latest = useRef(config);
  latest.current = config;
  const set = (name: string, next: unknown): void => {
    const all = { ...latest.current, [name]: next };
    if (next === undefined) delete all[name];
    latest.current = all;
    onChange({ type: body.type, config: all });
  };
  const actions = ["agent", "sub_agent", "tool", "code", "http", "workflow"];
  return (
    <fieldset className="cv-set">
      <legend>For each item</legend>
      <Select label="Action" value={body.type ?? ""} options={actions.map((type) => [type, KINDS[type]?.label ?? type])} onChange={(type) => onChange({ type, config: {} })} />
      {(KINDS[body.type ?? ""]?.fields ?? [])
        .filter((spec) => spec.name !== "conversation")
        .map((spec) => (
          <Field key={spec.name} spec={spec} node={inner} set={set} extra={[["item", "The item"], ["index", "The item's number, from 0"]]} />
        ))}
    </fieldset>
  );
}

/** One field of a node's configuration. */
export function Field({ spec, node, set, extra }: { spec: FieldSpec; node: CanvasNode; set: (name: string, value: unknown) => void; extra?: FieldProps["extra"] }): ReactNode {
  const { boot } = useShared();
  const value = node.config[spec.name];
  const facts: FieldProps = { label: spec.label, value, onChange: (next) => set(spec.name, next), node, help: spec.help, placeholder: spec.placeholder, extra };
  switch (spec.kind) {
    case "template":
      return <Template {...facts} />;
    case "line":
      return <Template {...facts} rows={1} />;
    case "expression":
      return <Template {...facts} rows={2} isBare isCode />;
    case "code":
      return <Area label={spec.label} value={asText(value)} rows={10} isCode help={spec.help} onChange={(next) => set(spec.name, next || undefined)} />;
    case "text":
      return <Area label={spec.label} value={asText(value)} onChange={(next) => set(spec.name, next || undefined)} />;
    case "json":
      return <JsonField {...facts} />;
    case "number":
      return <Line label={spec.label} type="number" value={asText(value)} placeholder={spec.placeholder} onChange={(text) => set(spec.name, text === "" ? undefined : Number(text))} />;
    case "select":
      return <Select label={spec.label} value={asText(value)} options={spec.options ?? []} onChange={(next) => set(spec.name, next || undefined)} help={spec.help} />;
    case "agent":
      return <Select label={spec.label} value={agentId(asText(value), boot.agents)} options={[...(value ? [] : ([["", "Choose an agent…"]] as [string, string][])), ...boot.agents.map((one): [string, string] => [one.id, one.name])]} onChange={(next) => set(spec.name, next || undefined)} />;
    case "tool":
      return (
        <ToolPicker
          label={spec.label}
          value={asText(value)}
          onChange={(next) => {
            set(spec.name, next || undefined);
            set("input", inputFor(boot.tools.find((one) => one.name === next), node.config["input"]));
          }}
        />
      );
    case "arguments":
      return <Arguments {...facts} />;
    case "workflow":
      return <WorkflowPicker node={node} set={set} />;
    case "params":
      return <Params {...facts} />;
    case "wait":
      return <Wait node={node} set={set} />;
    case "schema":
      return <SchemaBuilder {...facts} />;
    case "pairs":
      return <Pairs {...facts} />;
    case "body":
      return <Body {...facts} />;
  }
}

/** Keep what another tool can take of an input; it would refuse the rest. */
function inputFor(tool: ToolInfo | undefined, input: unknown): unknown {
  const taken = new Set(Object.keys(tool?.schema.properties ?? {}));
  const kept = Object.entries((input ?? {}) as Record<string, unknown>).filter(([name]) => taken.has(name));
  return kept.length ? Object.fromEntries(kept) : undefined;
}

function Arguments(facts: FieldProps): ReactNode {
  const { boot } = useShared();
  const tool = boot.tools.find((one) => one.name === facts.node.config["tool"]);
  if (!tool) return facts.node.config["tool"] ? <JsonField {...facts} strict /> : null;
  const value = (facts.value ?? {}) as Record<string, unknown>;
  if (!Object.keys(tool.schema.properties ?? {}).length) return <p className="cv-help">This tool takes no input.</p>;
  return (
    <fieldset className="cv-set">
      <legend>Input</legend>
      <SchemaForm schema={tool.schema} value={value} onChange={facts.onChange} node={facts.node} extra={facts.extra} />
    </fieldset>
  );
}

/** Agents may be named in a configuration; people pick them. */
function agentId(value: string, agents: readonly { id: string; name: string }[]): string {
  return agents.find((one) => one.id === value || one.name === value)?.id ?? value;
}

function WorkflowPicker({ node, set }: { node: CanvasNode; set: (name: string, value: unknown) => void }): ReactNode {
  const { boot } = useShared();
  const workflow = asText(node.config["workflow"]);
  const options: [string, string][] = [
    ...(workflow ? [] : ([["", "Choose a workflow…"]] as [string, string][])),
    ["canvas", "An agent's canvas"],
    ...boot.workflows.map((one): [string, string] => [one.name, one.name]),
  ];
  return (
    <>
      <Select label="Workflow" value={workflow} options={options} help={boot.workflows.find((one) => one.name === workflow)?.about} onChange={(next) => set("workflow", next || undefined)} />
      {workflow === "canvas" ? (
        <Field spec={{ name: "agent", label: "Agent", kind: "agent" }} node={node} set={set} />
      ) : null}
    </>
  );
}

function Params(facts: FieldProps): ReactNode {
  const { boot } = useShared();
  const chosen = boot.workflows.find((one) => one.name === facts.node.config["workflow"]);
  if (!chosen?.schema) return <JsonField {...facts} />;
  return (
    <fieldset className="cv-set">
      <legend>Input</legend>
      <SchemaForm schema={chosen.schema} value={(facts.value ?? {}) as Record<string, unknown>} onChange={facts.onChange} node={facts.node} extra={facts.extra} />
    </fieldset>
  );
}
