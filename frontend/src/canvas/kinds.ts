/** The types of nodes: how each is named, drawn and configured. */
import type { CanvasNode } from "./graph.ts";

/** A JSON Schema, as far as forms read it. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  format?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

export type FieldKind =
  | "template"
  | "line"
  | "expression"
  | "code"
  | "agent"
  | "tool"
  | "workflow"
  | "json"
  | "select"
  | "wait"
  | "schema"
  | "pairs"
  | "arguments"
  | "params"
  | "body"
  | "number"
  | "text";

export interface FieldSpec {
  name: string;
  label: string;
  kind: FieldKind;
  help?: string;
  placeholder?: string;
  options?: [value: string, label: string][];
}

export interface Kind {
  label: string;
  icon: string;
  about: string;
  fields: FieldSpec[];
  /** The handles of its outgoing edges, with what people read. */
  outs: [handle: string, label: string][];
  hasIn: boolean;
  group: string;
}

const PROMPT: FieldSpec = {
  name: "prompt",
  label: "Message",
  kind: "template",
  help: "What to ask. Insert values from the input or from earlier nodes.",
};
const CONVERSATION: FieldSpec = {
  name: "conversation",
  label: "Conversation",
  kind: "select",
  options: [
    ["", "Automatic"],
    ["own", "Its own conversation"],
    ["run", "Shared within the run"],
  ],
};
const ONE: Kind["outs"] = [["", ""]];

export const KINDS: Record<string, Kind> = {
  trigger: {
    label: "Start",
    icon: "zap",
    about: "Where a run begins: its input and what starts it.",
    hasIn: false,
    outs: ONE,
    group: "Flow",
    fields: [{ name: "schema", label: "Start form", kind: "schema", help: "The fields that a person fills in to start a run." }],
  },
  agent: {
    label: "Ask this agent",
    icon: "bot",
    about: "This agent answers a message.",
    hasIn: true,
    outs: ONE,
    group: "Agents",
    fields: [PROMPT, CONVERSATION],
  },
  sub_agent: {
    label: "Ask another agent",
    icon: "users",
    about: "Another agent of the workspace answers a message.",
    hasIn: true,
    outs: ONE,
    group: "Agents",
    fields: [{ name: "agent", label: "Agent", kind: "agent" }, PROMPT, CONVERSATION],
  },
  tool: {
    label: "Use a tool",
    icon: "wrench",
    about: "Calls one tool under the agent's policy.",
    hasIn: true,
    outs: ONE,
    group: "Actions",
    fields: [
      { name: "tool", label: "Tool", kind: "tool" },
      { name: "input", label: "Input", kind: "arguments" },
    ],
  },
  code: {
    label: "Run Python",
    icon: "code",
    about: "Runs Python in the agent's sandbox.",
    hasIn: true,
    outs: ONE,
    group: "Actions",
    fields: [
      { name: "code", label: "Python", kind: "code", help: "Write main(data). What it returns is the output." },
      { name: "data", label: "Data", kind: "json", help: "Passed to main. Values in {{ }} are filled in." },
      { name: "seconds", label: "Time limit in seconds", kind: "number", placeholder: "60" },
    ],
  },
  http: {
    label: "Send a request",
    icon: "globe",
    about: "Sends an HTTP request to a public address.",
    hasIn: true,
    outs: ONE,
    group: "Actions",
    fields: [
      {
        name: "method",
        label: "Method",
        kind: "select",
        options: ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((one) => [one === "GET" ? "" : one, one]),
      },
      { name: "url", label: "Address", kind: "line", placeholder: "https://…" },
      { name: "headers", label: "Headers", kind: "pairs", help: "Write {{vault:NAME}} for a secret." },
      { name: "body", label: "Body", kind: "json", help: "Text, or JSON with values in {{ }}." },
    ],
  },
  condition: {
    label: "Decide",
    icon: "git-branch",
    about: "Follows the true or the false branch.",
    hasIn: true,
    outs: [
      ["true", "true"],
      ["false", "false"],
    ],
    group: "Flow",
    fields: [
      {
        name: "expression",
        label: "Condition",
        kind: "expression",
        placeholder: "input.amount > 100",
        help: 'For example: input.amount > 100 and nodes.check.output contains "ok"',
      },
    ],
  },
  loop: {
    label: "Repeat for each",
    icon: "repeat",
    about: "Does the same for every item of a list.",
    hasIn: true,
    outs: ONE,
    group: "Flow",
    fields: [
      { name: "items", label: "List", kind: "line", placeholder: "{{input.items}}" },
      { name: "body", label: "For each item", kind: "body" },
      {
        name: "on_error",
        label: "If one fails",
        kind: "select",
        options: [
          ["", "Stop the run"],
          ["continue", "Note the error and go on"],
        ],
      },
    ],
  },
  approval: {
    label: "Ask a person",
    icon: "shield-check",
    about: "Waits until a person approves.",
    hasIn: true,
    outs: [
      ["", "approved"],
      ["rejected", "rejected"],
    ],
    group: "Flow",
    fields: [{ name: "message", label: "Question", kind: "template" }],
  },
  wait: {
    label: "Wait",
    icon: "clock",
    about: "Waits for a time or for an event.",
    hasIn: true,
    outs: ONE,
    group: "Flow",
    fields: [{ name: "wait", label: "Wait", kind: "wait" }],
  },
  workflow: {
    label: "Run a workflow",
    icon: "workflow",
    about: "Runs another agent's canvas, or a workflow, and waits for its result.",
    hasIn: true,
    outs: ONE,
    group: "Actions",
    fields: [
      { name: "workflow", label: "Workflow", kind: "workflow" },
      { name: "params", label: "Input", kind: "params" },
    ],
  },
  output: {
    label: "Output",
    icon: "flag",
    about: "The result of the run.",
    hasIn: true,
    outs: [],
    group: "Flow",
    fields: [{ name: "value", label: "Result", kind: "json", help: "Leave empty to pass on what comes in." }],
  },
  note: {
    label: "Comment",
    icon: "sticky-note",
    about: "A note for people. It does nothing.",
    hasIn: false,
    outs: [],
    group: "Comments",
    fields: [{ name: "text", label: "Comment", kind: "text" }],
  },
};

/** The types of nodes that plugins bring, with the schema of their configuration. */
export interface PluginKind {
  name: string;
  about: string;
  schema: Schema;
}

export function kindOf(type: string, plugins: readonly PluginKind[] = []): Kind {
  const known = KINDS[type];
  if (known) return known;
  const plugin = plugins.find((one) => one.name === type);
  return {
    label: plugin ? type.replaceAll("_", " ") : `Unknown type: ${type}`,
    icon: plugin ? "plug" : "circle-help",
    about: plugin?.about ?? "No installed plugin brings this type of node.",
    hasIn: true,
    outs: ONE,
    group: "Plugins",
    fields: Object.entries(plugin?.schema.properties ?? {}).map(([name, schema]) => ({
      name,
      label: schema.title ?? name,
      kind: isText(schema) ? "template" : "json",
      ...(schema.description ? { help: schema.description } : {}),
    })),
  };
}

export function isText(schema: Schema): boolean {
  return schema.type === "string" || (schema.anyOf ?? []).some((one) => one.type === "string");
}

/** Return what people call a node. */
export function titleOf(node: CanvasNode, plugins: readonly PluginKind[] = []): string {
  if (node.name) return node.name;
  if (node.type === "note") return String(node.config["text"] ?? "").split("\n")[0]?.slice(0, 40) || "Comment";
  return kindOf(node.type, plugins).label;
}

/** Return a line that says what a node does. */
export function summaryOf(node: CanvasNode, agents: readonly { id: string; name: string }[]): string {
  const text = (name: string): string => {
    const value = node.config[name];
    return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
  };
  switch (node.type) {
    case "sub_agent":
      return [agents.find((one) => one.id === text("agent"))?.name ?? text("agent"), text("prompt")].filter(Boolean).join(": ");
    case "wait":
      return node.config["event"] ? `For the event ${text("event")}` : `For ${Number(node.config["seconds"] ?? 0)} s`;
    case "http":
      return `${text("method") || "GET"} ${text("url")}`;
    case "trigger": {
      const fields = Object.keys(((node.config["schema"] ?? {}) as Schema).properties ?? {});
      return fields.length ? fields.join(", ") : "Any input";
    }
    default:
      return text({ agent: "prompt", tool: "tool", condition: "expression", approval: "message", code: "code", loop: "items", workflow: "workflow", output: "value" }[node.type] ?? "");
  }
}
