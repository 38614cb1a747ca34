import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Json, Rest } from "../lib/rest.ts";
import { FakeSocket } from "../lib/samples/socket.ts";
import type { Frame } from "./frames.ts";
import { LineList } from "./renderer.ts";
import { BOOTSTRAP } from "./samples/bootstrap.ts";
import { answer, end, event, message, result, start, use } from "./samples/frames.ts";
import { sampleHost } from "./samples/host.ts";
import { type Action, begin, type State } from "./state.ts";
import { SubagentPreview } from "./subagent-preview.ts";
import { SubagentWatcher } from "./subagents.ts";
import { reduce, visibleItems, waitsForChildren } from "./transcript.ts";

const CHILD = { child_session_id: "c9", tool_use_id: "t1", title: "Count", task: "Count the files." };
const BRANCH = {
  id: "c9",
  title: "Count",
  agent_name: "Helper",
  task_status: "running",
  input_tokens: 1000,
  output_tokens: 200,
  cost: "0.01230000",
  pending_approvals: 1,
};
const ASKED = {
  id: "a1",
  session_id: "c9",
  session_title: "Count",
  agent_name: "Helper",
  tool: "exec",
  input: { command: "ls" },
  reason: "default: exec asks first",
  created_at: "2026-11-16T09:30:00Z",
};

let answers: Record<string, unknown>;
let posted: [string, Json][];
let rest: Rest;
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

beforeEach(() => {
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  answers = {};
  posted = [];
  rest = {
    get: async (path: string) => answers[path.split("?")[0]!] ?? { results: [] },
    post: async (path: string, body: Json) => void posted.push([path, body]),
  } as unknown as Rest;
  document.body.innerHTML = `<ol></ol><aside id="inspector"><p>Facts</p></aside>`;
});
afterEach(() => vi.unstubAllGlobals());

function after(frames: Frame[], state: State = begin()): State {
  return frames.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
}

function waiting(): State {
  return after([
    message(1, "ask a sub-agent"),
    start(2),
    use(3, "t1"),
    event(4, "session.child_created", CHILD),
    end(5, "run-1", "requires_action"),
  ]);
}

test("a call that started a session is its card, which fills with the result", () => {
  const flow = new LineList($("ol"), sampleHost());
  let state = waiting();
  flow.draw(visibleItems(state));
  const card = $(".child");
  expect(document.querySelectorAll(".call, .is-note")).toHaveLength(0);
  expect(card.querySelector(".state")!.textContent).toBe("At work");
  expect(waitsForChildren(state)).toBe(true);

  const ended = { ...CHILD, status: "completed", result: "**Four** files." };
  state = after([event(6, "session.child_idle", ended), result(7, "t1")], state);
  flow.draw(visibleItems(state));
  expect($(".child")).toBe(card);
  expect(card.querySelector(".said strong")!.textContent).toBe("Four");
  expect(card.querySelector(".state")!.textContent).toBe("Done");
  expect(waitsForChildren(state)).toBe(false);
});

test("the end of a child whose beginning is not known has a card of its own", () => {
  const ended = { ...CHILD, status: "failed", result: "No money." };
  const state = after([event(8, "session.child_idle", ended)], begin(8));
  new LineList($("ol"), sampleHost()).draw(visibleItems(state));

  expect($<HTMLAnchorElement>(".child-end a.link-text").getAttribute("href")).toBe("/chat/c9/");
  expect($<HTMLDetailsElement>(".child-result").open).toBe(true);
});

test("a child's question is asked at its parent, by the bell and not by asking over and over", async () => {
  let state = waiting();
  const dispatch = (action: Action): void => {
    state = reduce(state, action);
  };
  const subagents = new SubagentWatcher({ bootstrap: BOOTSTRAP, rest, dispatch });
  subagents.follow(state);
  expect(FakeSocket.last.url).toContain("/ws/approvals/");
  answers["/api/v1/sessions/s1/tree/"] = { results: [BRANCH] };
  answers["/api/v1/approvals/"] = { results: [ASKED, { ...ASKED, id: "own", session_id: "s1" }] };
  FakeSocket.last.say({ type: "approvals", pending: 1, approval: null });
  await vi.waitFor(() => expect(state.questions).toHaveLength(1));

  const host = { ...sampleHost(), answerQuestion: subagents.answer.bind(subagents) };
  new LineList($("ol"), host).draw(visibleItems(state));
  expect($(".child-facts").textContent).toBe("1.2k tokens · $0.0123");
  expect($(".child-asks").textContent).toBe("Needs approval");
  expect($(".approval-words").textContent).toContain("Helper wants to do this.");
  $("[data-approve]").click();
  await vi.waitFor(() => expect(posted).toHaveLength(1));
  expect(posted[0]![0]).toBe("/api/v1/approvals/a1/");
  expect(posted[0]![1]).toMatchObject({ decision: "allow", scope: "once" });

  state = after([event(6, "session.child_idle", { ...CHILD, status: "completed", result: "4" })], state);
  const bell = FakeSocket.last;
  subagents.follow(state);
  expect(bell.readyState).toBe(FakeSocket.CLOSED);
  subagents.close();
});

test("a child is followed beside the chat only while it is open there", async () => {
  answers["/api/v1/sessions/c9/"] = { last_seq: 250 };
  const preview = new SubagentPreview({ inspector: $("#inspector"), bootstrap: BOOTSTRAP, rest, host: sampleHost() });
  const call = waiting().items.find((item) => item.kind === "call")!;
  await preview.open(call.child!);
  const socket = FakeSocket.last;
  expect(socket.url).toContain("/ws/sessions/c9/?after=150");
  socket.open();
  socket.say(answer(151, "Counting."));
  await vi.waitFor(() => expect($("#inspector .said").textContent).toContain("Counting."));

  $<HTMLButtonElement>(".beside [aria-label=Close]").click();
  expect(socket.readyState).toBe(FakeSocket.CLOSED);
  expect($("#inspector").textContent).toBe("Facts");
});

test("Escape closes the preview, stops nothing, and gives the focus back", async () => {
  answers["/api/v1/sessions/c9/"] = { last_seq: 1 };
  const opener = document.body.appendChild(document.createElement("button"));
  opener.focus();
  const preview = new SubagentPreview({ inspector: $("#inspector"), bootstrap: BOOTSTRAP, rest, host: sampleHost() });
  await preview.open(waiting().items.find((item) => item.kind === "call")!.child!);
  const pressed = new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true });
  $(".beside").dispatchEvent(pressed);

  expect(pressed.defaultPrevented).toBe(true);
  expect(document.querySelector(".beside")).toBeNull();
  expect(document.activeElement).toBe(opener);
});
