import { beforeEach, expect, test, vi } from "vitest";
import type { Rest } from "../lib/rest.ts";
import { type ForkOptions, forkAndOpen } from "./new-session.ts";
import { Meter } from "./status.ts";

let posted: [string, unknown][];
let options: ForkOptions;
let refuses: boolean;
const go = vi.fn();
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

beforeEach(() => {
  localStorage.clear();
  go.mockClear();
  posted = [];
  refuses = false;
  const post = async (path: string, body: unknown): Promise<unknown> => {
    posted.push([path, body]);
    if (refuses && path.endsWith("messages/")) throw new Error("Not now.");
    return { id: "s2" };
  };
  const rest = { post } as unknown as Rest;
  options = { api: "/api/v1/sessions/s1/", sessionId: "s1", rest, token: "t", store: localStorage, go };
});

test("another wording is said in a copy that ends before the message", async () => {
  await forkAndOpen(options, 4, { text: "hullo", files: [] });

  expect(posted).toEqual([
    ["/api/v1/sessions/s1/fork/", { at_seq: 4 }],
    ["/api/v1/sessions/s2/messages/", { text: "hullo" }],
  ]);
  expect(go).toHaveBeenCalledWith("/chat/s2/");
});

test("a branch stays in the chat and has its files already", async () => {
  const file = { name: "a.txt", path: "a.txt", media_type: "text/plain", size: 3 };
  await forkAndOpen(options, 4, { text: "hullo", files: [file] }, true);

  expect(posted).toEqual([
    ["/api/v1/sessions/s1/fork/", { at_seq: 4, branch: true }],
    ["/api/v1/sessions/s2/messages/", { text: "hullo", attachments: [file] }],
  ]);
});

test("what could not be said in the copy waits there as a draft", async () => {
  refuses = true;
  await forkAndOpen(options, 4, { text: "hullo", files: [] });

  expect(localStorage.getItem("chat-draft:s2")).toBe("hullo");
  expect(go).toHaveBeenCalledWith("/chat/s2/");
});

test("a message is not said without a file that went with it; it waits as a draft", async () => {
  vi.stubGlobal("fetch", async () => new Response("", { status: 404 }));
  const file = { name: "a.txt", path: "/workspace/a.txt", media_type: "text/plain", size: 3 };
  await forkAndOpen(options, 4, { text: "read it", files: [file] });
  vi.unstubAllGlobals();

  expect(posted).toHaveLength(1);
  expect(localStorage.getItem("chat-draft:s2")).toBe("read it");
});

test("the meter tells context, tokens and cost, and opens the context", () => {
  document.body.innerHTML = `<button data-inspector></button><aside id="inspector" data-closed></aside>
    <h2 id="context-title" tabindex="-1"></h2>
    <button data-meter hidden><progress max="100"></progress><span data-meter-text></span></button>`;
  const opened = vi.fn();
  $("[data-inspector]").addEventListener("click", opened);
  const meter = new Meter($("[data-meter]"));
  meter.show("");
  expect($("[data-meter]").hidden).toBe(true);
  meter.show("1.2k tokens used · $0.0421");
  meter.fill(850, 1_000);

  expect($("[data-meter-text]").textContent).toBe("85 % of context · 1.2k tokens used · $0.0421");
  expect($("progress").getAttribute("value")).toBe("85");
  $("[data-meter]").click();
  expect(opened).toHaveBeenCalled();
});
