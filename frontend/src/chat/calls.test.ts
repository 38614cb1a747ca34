import { expect, test } from "vitest";
import { advance, duration, outputText, resolve, subjectOf, titleOf } from "./calls.ts";
import type { CallState } from "./frames.ts";
import { confirmation, result, use } from "./samples/frames.ts";
import type { CallItem, Status } from "./state.ts";

const asked = advance(undefined, use(1, "c1", "ask", { command: "ls" }));
const allowed = advance(undefined, use(1, "c1"));
const denied = advance(undefined, use(1, "c1", "deny"));

const CASES: [string, CallItem, Status, CallState][] = [
  ["allowed, in a running session", allowed, "running", "running"],
  ["allowed, in a session that tries again", allowed, "rescheduling", "pending"],
  ["allowed, behind something that waits", allowed, "requires_action", "pending"],
  ["without a result when all is over", allowed, "idle", "unknown"],
  ["asked, on the way to wait", asked, "running", "awaiting_approval"],
  ["asked, waiting", asked, "requires_action", "awaiting_approval"],
  ["asked, in a copy of its session", asked, "idle", "unknown"],
  ["denied by a rule", denied, "running", "denied"],
  ["answered with yes", advance(asked, confirmation(2, "c1", "allow")), "requires_action", "pending"],
  ["answered with yes, running", advance(asked, confirmation(2, "c1", "allow")), "running", "running"],
  ["answered with no", advance(asked, confirmation(2, "c1", "deny")), "requires_action", "denied"],
];

test.each(CASES)("a call that was %s", (_name, call, status, state) => {
  expect(resolve(call, status)).toBe(state);
});

test.each(["completed", "error", "denied", "cancelled", "unknown"] as const)(
  "the result %s is the last word, whatever the session does",
  (state) => {
    const call = advance(asked, result(3, "c1", { tool_state: state }));

    for (const status of ["idle", "running", "requires_action"] as const) {
      expect(resolve(call, status)).toBe(state);
    }
  },
);

test("edited arguments replace those that were asked for", () => {
  const call = advance(asked, confirmation(2, "c1", "allow", { command: "ls -la" }));

  expect(call.input).toEqual({ command: "ls -la" });
  expect(call.answer?.decision).toBe("allow");
});

test("a result whose call lies before the page still makes a line", () => {
  const call = advance(undefined, result(3, "c9", { tool_output: { files: 2 } }));

  expect(call).toMatchObject({ key: "c9", name: "exec", durationMs: 340, result: "completed" });
  expect(outputText(call.output)).toBe('{\n  "files": 2\n}');
});

test("a line says the verb and the argument that matters", () => {
  const words = { title: "Run a command", subject: "command", effects: "", covers: "exactly this command" };

  expect(titleOf("exec", words)).toBe("Run a command");
  expect(titleOf("mcp:github:open_issue", undefined)).toBe("Mcp github open issue");
  expect(subjectOf({ seconds: 3, command: "ls\n  -la" }, words)).toBe("ls -la");
  expect(subjectOf({ depth: 3, place: "yard" }, undefined)).toBe("yard");
  expect(subjectOf({ depth: 3 }, undefined)).toBe("");
  expect(subjectOf({ command: "x".repeat(500) }, words)).toHaveLength(200);
});

test.each([
  [null, ""],
  [0, "0 ms"],
  [340, "340 ms"],
  [1_240, "1.2 s"],
  [12_000, "12 s"],
  [125_000, "2 min 5 s"],
])("%s ms is said as %s", (ms, said) => {
  expect(duration(ms)).toBe(said);
});
