import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { listenForActions } from "./actions.ts";
import { lineActions } from "./line-actions.ts";
import { agentLine, personLine, TEMPLATES } from "./samples/bootstrap.ts";
import type { SessionClient } from "./session-client.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
let listening: AbortController;
const fork = vi.fn(async (_atSeq: number, _message?: unknown): Promise<void> => undefined);
const branch = vi.fn(async (_atSeq: number, _message: unknown): Promise<void> => undefined);
const complain = vi.fn();
const reword = vi.fn();
const openPreview = vi.fn(async () => undefined);

function clientOf(): SessionClient {
  const nothing = async (): Promise<void> => undefined;
  return {
    retry: vi.fn(nothing),
    undo: vi.fn(nothing),
    verify: vi.fn(nothing),
    runAgain: vi.fn(nothing),
    resend: vi.fn(),
    send: vi.fn(),
    forget: vi.fn(),
    wholeOutput: vi.fn(async () => "all of it"),
    summary: vi.fn(async () => "A summary."),
    state: { outbox: [{ id: "x", text: "hello", files: [] }] },
  } as unknown as SessionClient;
}

let client: SessionClient;

function show(html: string): void {
  document.body.innerHTML = `<div data-island="chat"><ol>${html}</ol></div>${TEMPLATES}`;
  listening = new AbortController();
  client = clientOf();
  const actions = lineActions({ client, templates: document, fork, branch, reword, openPreview });
  listenForActions($("[data-island]"), { actions, complain, signal: listening.signal });
}

beforeEach(() => {
  for (const mock of [fork, branch, complain, reword, openPreview]) mock.mockClear();
});
afterEach(() => listening.abort());

test("a message is edited where it stands; Escape leaves it alone, Enter sends the new words", () => {
  show(personLine(5, "hello"));
  const press = (key: string): boolean =>
    $("textarea").dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, bubbles: true }));
  $("[data-action=edit]").click();
  expect($<HTMLTextAreaElement>("textarea").value).toBe("hello");
  expect($(".line").hasAttribute("data-editing")).toBe(true);
  press("Escape");
  expect($(".bubble").textContent).toBe("hello");
  expect(document.activeElement).toBe($("[data-action=edit]"));
  $("[data-action=edit]").click();
  $<HTMLTextAreaElement>("textarea").value = "hullo";
  press("Enter");

  expect(branch).toHaveBeenCalledWith(4, { text: "hullo", files: [] });
});

test("an answer is asked for again with the question before it, or gone on from", async () => {
  const file = { name: "a", path: "a", media_type: "", size: 1 };
  const attached = personLine(3, "why?").replace("<li ", `<li data-attachments='${JSON.stringify([file])}' `);
  const buttons = `<button data-action="regenerate"></button><button data-action="fork" data-at="5"></button>`;
  const regenerated = agentLine("e4", "So.").replace("</p>", `${buttons}</p>`);
  show(personLine(1, "first") + attached + regenerated + personLine(6, "later"));
  const goOn = $<HTMLButtonElement>("[data-key=e4] [data-action=fork]");
  $("[data-action=regenerate]").click();
  expect(goOn.disabled).toBe(true);
  await vi.waitFor(() => expect(goOn.disabled).toBe(false));
  goOn.click();

  expect(branch.mock.calls).toEqual([[2, { text: "why?", files: [file] }]]);
  expect(fork.mock.calls).toEqual([[5]]);
});

test("without a question there is nothing to ask again, and the page says so", async () => {
  show(agentLine("e4", "So.").replace("</p>", `<button data-action="regenerate"></button></p>`));
  $("[data-action=regenerate]").click();

  await vi.waitFor(() => expect(complain).toHaveBeenCalledWith("Load earlier messages first."));
});

test("forms are sent by the script, and a refusal is shown in the line", async () => {
  show(`<li data-key="e1"><form data-action="retry"><button name="run" value="run-1">Retry</button></form><p data-action-error hidden></p></li>`);
  vi.mocked(client.retry).mockRejectedValueOnce(new Error("No money."));
  $("button").click();
  await vi.waitFor(() => expect($("[data-action-error]").textContent).toBe("No money."));

  expect(client.retry).toHaveBeenCalledWith("run-1");
  expect($("[data-action-error]").hidden).toBe(false);
  expect($<HTMLButtonElement>("button").disabled).toBe(false);
});

test("an answer that was cut off is continued once", () => {
  show(`<li data-key="cut-4"><form data-action="continue"><button name="text" value="Go on.">Continue</button></form></li>`);
  $("button").click();
  $("button").click();

  expect(vi.mocked(client.send).mock.calls).toEqual([["Go on.", "followup"]]);
});

test("a call with an unknown outcome is settled", () => {
  show(`<li data-key="c"><button data-action="verify" data-call="t1" data-took-effect="false"></button></li>
    <li data-key="d"><button data-action="run-again" data-call="t2"></button></li>`);
  $("[data-action=verify]").click();
  $("[data-action=run-again]").click();

  expect(client.verify).toHaveBeenCalledWith("t1", false);
  expect(client.runAgain).toHaveBeenCalledWith("t2");
});

test("all of a long result is fetched when it is asked for", async () => {
  show(`<li data-key="c"><div data-part><pre>cut…</pre><button data-action="whole-output" data-at="42"></button></div></li>`);
  $("button").click();
  await vi.waitFor(() => expect($("pre").textContent).toBe("all of it"));

  expect(client.wholeOutput).toHaveBeenCalledWith(42);
  expect(document.querySelector("button")).toBeNull();
});

test("a summary is fetched once, shown and hidden", async () => {
  show(`<li data-key="s"><button data-action="summary" data-snapshot="s1" aria-expanded="false"><span data-when="closed">View</span><span data-when="open" hidden>Hide</span></button><pre data-summary hidden></pre></li>`);
  $("button").click();
  await vi.waitFor(() => expect($("pre").hidden).toBe(false));
  expect($("pre").textContent).toBe("A summary.");
  expect($("[data-when=open]").hidden).toBe(false);
  await vi.waitFor(() => expect($<HTMLButtonElement>("button").disabled).toBe(false));
  $("button").click();
  await vi.waitFor(() => expect($("pre").hidden).toBe(true));

  expect(client.summary).toHaveBeenCalledOnce();
});

test("a message that was refused is sent again, reworded or let go", () => {
  show(`<li data-key="o" data-outgoing="x"><button data-action="resend"></button><button data-action="reword"></button><button data-action="discard"></button></li>`);
  for (const button of document.querySelectorAll<HTMLElement>("[data-outgoing] button")) button.click();

  expect(client.resend).toHaveBeenCalledWith("x");
  expect(reword).toHaveBeenCalledWith(expect.objectContaining({ text: "hello" }));
  expect(client.forget).toHaveBeenCalledTimes(2);
});

test("a card opens its preview", () => {
  show(`<li data-key="c"><button data-action="preview" data-session="s2"></button></li>`);
  $("button").click();

  expect(openPreview).toHaveBeenCalledWith($("button"));
});
