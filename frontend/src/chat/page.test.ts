import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { why } from "./approval.ts";
import type { Frame } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import type { OutgoingMessage } from "./messages.ts";
import { LineList } from "./renderer.ts";
import { answer, confirmation, end, failure, message, result, said, start, use } from "./samples/frames.ts";
import { sampleHost } from "./samples/host.ts";
import { begin, type State } from "./state.ts";
import { reduce, visibleItems } from "./transcript.ts";

let host: ChatHost;

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
  localStorage.clear();
  document.body.innerHTML = `<ol></ol>`;
  host = sampleHost();
});
afterEach(() => vi.unstubAllGlobals());

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

function flowOf(...frames: Frame[]): { flow: LineList; next: (...more: Frame[]) => void } {
  let state: State = begin();
  const flow = new LineList($("ol"), host);
  const next = (...more: Frame[]): void => {
    state = more.reduce((now, frame) => reduce(now, { type: "frame", frame }), state);
    flow.draw(visibleItems(state));
  };
  next(...frames);
  return { flow, next };
}

test("a person's text is text, whatever it looks like", () => {
  flowOf(message(1, "<img src=x onerror=alert(1)> **not bold**"));

  expect($("ol").querySelector("img, strong")).toBeNull();
  expect($(".bubble").textContent).toBe("<img src=x onerror=alert(1)> **not bold**");
});

test("what a running call says stands below its line until the result replaces it", () => {
  const { next } = flowOf(message(1, "hi"), start(2), use(3, "c1", "allow", { command: "make" }));
  expect($(".call-live").hidden).toBe(true);
  next(said("c1", 0, "<b>one</b>\n"), said("c1", 11, "two\n"));

  expect($(".call-live").hidden).toBe(false);
  expect($(".call-live pre").textContent).toBe("<b>one</b>\ntwo\n");
  next(result(4, "c1"), said("c1", 15, "late\n"));
  expect($(".call-live").hidden).toBe(true);
  expect($(".call-live pre").textContent).toBe("");
});

/** Opens a call and waits until what is inside is drawn. */
async function unfold(): Promise<HTMLDetailsElement> {
  const call = $<HTMLDetailsElement>(".call");
  call.open = true;
  await vi.waitFor(() => expect(call.querySelector("pre")).not.toBeNull());
  return call;
}

test("a call opens to its arguments and result, drawn only then", async () => {
  flowOf(message(1, "hi"), start(2), use(3, "c1", "allow", { command: "ls" }), result(4, "c1"));
  const call = $<HTMLDetailsElement>(".call");
  expect(call.textContent).toContain("Run a command");
  expect(call.querySelector(".call-end")?.textContent).toBe("340 ms");
  expect(call.querySelector("pre")).toBeNull();
  await unfold();

  expect([...call.querySelectorAll("pre")].map((pre) => pre.textContent)).toEqual([
    '{\n  "command": "ls"\n}',
    "hello\n",
  ]);
});

test("a clipped result is fetched when all of it is asked for", async () => {
  const clipped = result(4, "c1", { metadata: { clipped: true } });
  flowOf(message(1, "hi"), start(2), use(3, "c1"), clipped);
  const call = await unfold();
  [...call.querySelectorAll("button")].find((one) => one.textContent === "Show all")!.click();
  await vi.waitFor(() => expect(call.textContent).toContain("all of it"));

  expect(host.wholeOutput).toHaveBeenCalledWith(4);
});

function approvalOf(): ReturnType<typeof flowOf> {
  return flowOf(
    message(1, "run ls"),
    start(2),
    use(3, "c1", "ask", { command: "ls" }),
    end(4, "run-1", "requires_action"),
  );
}

test("an approval says what happens, sends the arguments untouched, and shrinks when answered", () => {
  const { next } = approvalOf();
  expect($(".approval h3").textContent).toBe("Run a command?");
  expect($(".approval-words").textContent).toContain("It runs.");
  $("[data-approve]").click();
  expect(host.answer).toHaveBeenCalledWith("c1", { decision: "allow", scope: "once", note: "" });
  next(confirmation(5, "c1", "allow"));

  expect(document.querySelector(".approval")).toBeNull();
  expect($(".call").dataset["state"]).toBe("pending");
});

test("edited arguments are sent, and what is no JSON is not", () => {
  approvalOf();
  const input = $<HTMLTextAreaElement>(".approval-input");
  input.value = '{"command": ';
  $("[data-approve]").click();
  expect(host.answer).not.toHaveBeenCalled();
  expect($(".field-error").hidden).toBe(false);
  input.value = '["ls"]';
  $("[data-approve]").click();
  expect($(".field-error").textContent).toContain("JSON object");
  input.value = '{"command": "ls -la"}';
  $("[data-approve]").click();

  expect(host.answer).toHaveBeenCalledWith("c1", {
    decision: "allow",
    scope: "once",
    note: "",
    input: { command: "ls -la" },
  });
});

function buttonOf(words: string): HTMLButtonElement | undefined {
  return [...document.querySelectorAll("button")].find((one) => one.textContent === words);
}

test("a yes may be for the session, or always by those who write rules; the card says what it covers", () => {
  approvalOf();
  expect($(".approval-covers").textContent).toContain("exactly this command");
  buttonOf("For this session")!.click();
  expect(host.answer).toHaveBeenCalledWith("c1", { decision: "allow", scope: "session", note: "" });
  buttonOf("Always")!.disabled = false;
  buttonOf("Always")!.click();
  expect(host.answer).toHaveBeenLastCalledWith("c1", { decision: "allow", scope: "always", note: "" });

  host.mayAdmin = false;
  approvalOf();
  expect(buttonOf("Always")).toBeUndefined();
});

test("an answered card is a line that says who and when", () => {
  const { next } = approvalOf();
  const answered = confirmation(5, "c1", "allow");
  next({ ...answered, metadata: { ...answered.metadata, scope: "session", answered_by: "Olive" } });

  expect($(".call-end").textContent).toMatch(/^Allowed for this session by Olive at \d/);
});

test("a denial carries its reason, and a failed answer can be given again", async () => {
  host.answer = vi.fn(async () => {
    throw new Error("Somebody was quicker.");
  });
  approvalOf();
  $<HTMLInputElement>(".approval-end input").value = "Not today";
  $("[data-deny]").click();
  await vi.waitFor(() => expect($(".field-error").textContent).toBe("Somebody was quicker."));

  expect(host.answer).toHaveBeenCalledWith("c1", { decision: "deny", scope: "once", note: "Not today" });
  expect($<HTMLButtonElement>("[data-deny]").disabled).toBe(false);
});

test("who may only read sees the call, not the buttons", () => {
  host.mayRun = false;
  approvalOf();

  expect(document.querySelector(".approval")).toBeNull();
  expect($(".call-end").textContent).toBe("Needs approval");
});

test("an error has the button that tries again", () => {
  flowOf(message(1, "hi"), start(2), failure(3));
  [...document.querySelectorAll("button")].find((one) => one.textContent === "Retry")!.click();

  expect(host.retry).toHaveBeenCalledWith("run-1");
});

test("lines that move in keep the elements of those around them", () => {
  const { next } = flowOf(message(1, "a"), start(2), message(3, "b"), answer(4, "One"));
  const nodes = [...$("ol").children];
  next(end(5), start(6, "run-2"));

  expect([...$("ol").children].slice(0, 2)).toEqual(nodes);
  expect($("ol").lastElementChild?.textContent).toContain("b");
});

test("a message that was refused is sent again, reworded with its files, or let go", () => {
  const letter: OutgoingMessage = {
    ...{ id: "x", text: "hello", onBusy: "followup", at: "", reason: "", seq: null, found: false },
    ...{ state: "sending", files: [{ name: "a", path: "uploads/a", media_type: "", size: 1 }] },
  };
  const sending = reduce(begin(), { type: "sending", letter });
  new LineList($("ol"), host).draw(visibleItems(reduce(sending, { type: "refused", id: "x", reason: "No." })));
  for (const button of document.querySelectorAll<HTMLElement>(".line-meta button")) button.click();

  expect($(".receipt").textContent).toBe("Not sent: No.");
  expect(host.resend).toHaveBeenCalledWith("x");
  expect(host.reword).toHaveBeenCalledWith("x", expect.objectContaining({ files: letter.files }));
  expect(host.discard).toHaveBeenCalledWith("x");
});

function withoutMoney(seq: number): Frame {
  const failed = failure(seq);
  return { ...failed, metadata: { ...failed.metadata, code: "budget_reached" } };
}

test("a run that has no money leads to the page where an admin can help", () => {
  flowOf(message(1, "hi"), start(2), withoutMoney(3));

  const link = $<HTMLAnchorElement>(".is-trouble a");
  expect(link.textContent).toBe("Raise the budget");
  expect(link.getAttribute("href")).toBe("/settings/budgets/");
  expect($(".is-trouble button").textContent).toBe("Retry");
});

test("other errors have no link to money", () => {
  flowOf(message(1, "hi"), start(2), failure(3));

  expect(document.querySelector(".is-trouble a")).toBeNull();
});

test.each([
  ["default: exec asks first", "This tool always asks first, until a rule of the agent allows it."],
  ["subagent: parent, default: exec asks first", "This tool always asks first, until a rule of the agent allows it."],
  ["agent: ask exec", "The agent's policy asks: ask exec."],
  ["", ""],
])("the rule that asks is said in a sentence: %s", (rule, sentence) => {
  expect(why(rule)).toBe(sentence);
});
