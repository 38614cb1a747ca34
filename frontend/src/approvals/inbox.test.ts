import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "../lib/samples/socket.ts";
import inbox from "./inbox.ts";

const card = (id: string, title = id): string => `<li data-approval="${id}">
  <section class="approval" tabindex="-1"><h3>${title}</h3><form data-answer>
    <textarea name="input">{"command": "ls"}</textarea><p data-form-error hidden></p>
    <input name="note"><button name="answer" value="deny" data-deny>Deny</button>
    <button name="answer" value="session">For this session</button>
    <button name="answer" value="once" data-approve>Allow once</button></form></section></li>`;

function page(ids: string[], answered = ""): string {
  return `<title>x</title><span data-inbox-status>${ids.length ? `${ids.length} waiting` : "None waiting"}</span>
    <div data-island="approvals" data-api="/api/v1/approvals/"><p data-announce></p>
    <input name="csrfmiddlewaretoken" value="t">
    <div data-part="waiting">${ids.length ? `<ol data-pending>${ids.map((id) => card(id)).join("")}</ol>` : "Nothing"}</div>
    <section data-part="answered">${answered}</section></div>`;
}

let answers: Record<string, () => Response>;
let posted: [string, unknown][];
let close: (() => void) | undefined | void;

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const shown = (): (string | undefined)[] =>
  [...document.querySelectorAll<HTMLElement>("[data-approval]")].map((one) => one.dataset["approval"]);

beforeEach(() => {
  vi.stubGlobal("WebSocket", FakeSocket);
  answers = {};
  posted = [];
  vi.stubGlobal("fetch", async (path: string, options: RequestInit = {}) => {
    if (options.method === "POST") posted.push([path, JSON.parse(options.body as string)]);
    return answers[options.method ?? "GET"]?.() ?? new Response("{}");
  });
  document.title = "Approvals";
  document.body.innerHTML = page(["a", "b"]);
  close = inbox($('[data-island="approvals"]'));
  FakeSocket.last.open();
  announce(2);
});
afterEach(() => {
  close?.();
  vi.unstubAllGlobals();
});

function announce(pending: number, approval: object | null = null): void {
  FakeSocket.last.say({ type: "approvals", pending, approval });
}

test("an announcement adds the new card and keeps unsent input", async () => {
  $<HTMLTextAreaElement>("[data-approval=a] textarea").value = "{}";
  answers["GET"] = () => new Response(page(["a", "b", "c"]));
  announce(3, { title: "Run a command: ls", status: "pending", resolved_by_name: "" });

  await vi.waitFor(() => expect(shown()).toEqual(["a", "b", "c"]));
  expect($<HTMLTextAreaElement>("[data-approval=a] textarea").value).toBe("{}");
  expect(document.title).toBe("(3) Approvals");
  expect($("[data-announce]").textContent).toBe("Needs approval: Run a command: ls");
});

test("an approval answered by another person moves to the answered list", async () => {
  answers["GET"] = () => new Response(page([], "Olive allowed it"));
  announce(0, { title: "ls", status: "allowed", resolved_by_name: "Olive" });

  await vi.waitFor(() => expect($('[data-part="answered"]').textContent).toBe("Olive allowed it"));
  expect(shown()).toEqual([]);
  expect(document.title).toBe("Approvals");
  expect($("[data-announce]").textContent).toBe("allowed by Olive: ls");
});

test("Ctrl-Enter allows the focused card and focuses the next one", async () => {
  answers["GET"] = () => new Response(page(["b"]));
  $("[data-approval=a] .approval").focus();
  document.activeElement!.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }),
  );

  await vi.waitFor(() => expect(shown()).toEqual(["b"]));
  expect(posted).toEqual([["/api/v1/approvals/a/", { decision: "allow", scope: "once", note: "" }]]);
  expect(document.activeElement).toBe($("[data-approval=b] .approval"));
});

test("a key held down answers only one approval", async () => {
  const press = (repeat: boolean): boolean =>
    document.body.dispatchEvent(
      new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, repeat, bubbles: true }),
    );
  answers["GET"] = () => new Response(page(["b"]));
  press(false);
  await vi.waitFor(() => expect(shown()).toEqual(["b"]));
  press(true);

  expect(posted.map(([path]) => path)).toEqual(["/api/v1/approvals/a/"]);
});

test("Ctrl-Backspace denies with the reason, and edited arguments are sent with an approval", async () => {
  $<HTMLInputElement>("[data-approval=b] [name=note]").value = "not now";
  $("[data-approval=b] .approval").focus();
  document.activeElement!.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Backspace", ctrlKey: true, bubbles: true, cancelable: true }),
  );
  await vi.waitFor(() => expect(posted).toHaveLength(1));
  $<HTMLTextAreaElement>("[data-approval=a] textarea").value = '{"command": "pwd"}';
  $("[data-approval=a] [value=session]").click();
  await vi.waitFor(() => expect(posted).toHaveLength(2));

  expect(posted).toEqual([
    ["/api/v1/approvals/b/", { decision: "deny", scope: "once", note: "not now" }],
    ["/api/v1/approvals/a/", { decision: "allow", scope: "session", note: "", input: { command: "pwd" } }],
  ]);
});

test("an error is shown in the card, and invalid JSON is not sent", async () => {
  answers["POST"] = () => new Response('{"detail": "Olive was first."}', { status: 409 });
  $("[data-approval=a] [data-approve]").click();
  await vi.waitFor(() => expect($("[data-approval=a] [data-form-error]").textContent).toBe("Olive was first."));
  $<HTMLTextAreaElement>("[data-approval=b] textarea").value = "[";
  $("[data-approval=b] [data-approve]").click();
  await vi.waitFor(() => expect($("[data-approval=b] [data-form-error]").hidden).toBe(false));

  expect(posted).toHaveLength(1);
  expect($<HTMLButtonElement>("[data-approval=a] [data-approve]").disabled).toBe(false);
});

test("J and K move through the cards", () => {
  const press = (key: string): boolean =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  Element.prototype.scrollIntoView = vi.fn();
  const at = (): string | undefined =>
    document.activeElement?.closest<HTMLElement>("[data-approval]")?.dataset["approval"];
  press("j");
  expect(at()).toBe("a");
  press("j");
  press("j");
  expect(at()).toBe("b");
  press("k");
  expect(at()).toBe("a");
});
