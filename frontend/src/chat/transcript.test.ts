import { beforeEach, expect, test, vi } from "vitest";
import type { LiveDraft } from "./live-state.ts";
import type { OutgoingMessage } from "./outbox.ts";
import { agentLine, conversation, personLine, TEMPLATES } from "./samples/bootstrap.ts";
import { Transcript } from "./transcript.ts";

let transcript: Transcript;
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const keys = (): (string | undefined)[] => [...$("#list").children].map((one) => (one as HTMLElement).dataset["key"]);

const draft = (eventId: string, text: string): LiveDraft => ({
  ...{ eventId, text, runId: null, points: text.length, gap: false, isThinking: false, endsAt: null },
});
const outgoing = (more: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  ...{ id: "x", text: "hello", files: [], onBusy: "followup", state: "sending" },
  ...{ isQueued: false, reason: "", seq: null, isAcknowledged: false },
  ...more,
});
const nothing = new Map<string, never>();

function begin(html = ""): void {
  document.body.innerHTML = `<ol id="earlier" hidden></ol><ol id="list">${html}</ol>${TEMPLATES}`;
  transcript = new Transcript({
    list: $("#list"),
    earlier: $("#earlier"),
    templates: document,
    fileUrl: (path) => `/files/${path}`,
  });
}

beforeEach(() => begin());

test("the server's first paint is taken over, with its answers as Markdown", () => {
  begin(agentLine("a", "Some **bold** words"));

  expect($("strong").textContent).toBe("bold");
  expect(transcript.versions).toEqual(["v-Some **bold** words"]);
});

test("lines are added, changed, moved and removed as the server says", () => {
  begin(personLine(1, "one") + personLine(2, "two") + personLine(3, "three"));
  const [first, , third] = $("#list").children;
  transcript.apply(
    conversation(["message-3", "message-4", "message-1"], personLine(4, "four") + personLine(1, "one", "Read")),
    [],
  );

  expect(keys()).toEqual(["message-3", "message-4", "message-1"]);
  expect([...$("#list").children]).toContain(first);
  expect($("#list").firstElementChild).toBe(third);
  expect(first?.querySelector(".receipt")?.textContent).toBe("Read");
});

test("a changed line keeps what is open in it, the focus and the selected text", () => {
  const line = (state: string): string =>
    `<li class="line is-call" data-key="c" data-version="${state}" data-seq="1"><details><summary>${state}</summary><pre>text</pre></details></li>`;
  begin(line("running"));
  const details = $<HTMLDetailsElement>("details");
  details.open = true;
  const pre = $("pre").firstChild;
  $("summary").tabIndex = 0;
  $("summary").focus();
  transcript.apply(conversation(["c"], line("done")), []);

  expect($("details")).toBe(details);
  expect(details.open).toBe(true);
  expect($("pre").firstChild).toBe(pre);
  expect($("summary").textContent).toBe("done");
  expect(document.activeElement).toBe($("summary"));
});

test("a draft does not replace the stored answer when the lines arrive before its frame", () => {
  transcript.draw([draft("e2", "Hello")], [], nothing);
  transcript.apply(conversation(["e2"], agentLine("e2", "Hello, all of it.")), [draft("e2", "Hello")]);
  transcript.draw([draft("e2", "Hello,")], [], nothing);

  expect($("#list").textContent).toContain("Hello, all of it.");
  expect($("[data-streaming]")).toBeNull();
});

const approval = (words: string): string =>
  `<li class="line is-approval" data-key="c" data-version="${words}"><p>${words}</p><form data-answer><textarea name="input">{}</textarea></form></li>`;

test("an approval that a person edits is not redrawn, unless it was answered", () => {
  begin(approval("first"));
  const area = $<HTMLTextAreaElement>("textarea");
  area.value = '{"changed": 1}';
  transcript.apply(conversation(["c"], approval("second")), []);
  expect($("p").textContent).toBe("first");
  // The next request asks for it again.
  expect(transcript.versions).toEqual(["first"]);
  const call = `<li class="line is-call" data-key="c" data-version="x"><details><summary>Done</summary></details></li>`;
  area.focus();
  transcript.apply(conversation(["c"], call), []);

  expect(document.querySelector("form")).toBeNull();
  expect(document.activeElement).toBe($("summary"));
});

test("a draft becomes the stored line without a new element, so nothing flickers", () => {
  transcript.draw([draft("e3", "Some **bold**")], [], nothing);
  const line = $(".is-agent");
  const words = $("strong");
  expect(line.hasAttribute("data-streaming")).toBe(true);
  transcript.apply(conversation(["e3"], agentLine("e3", "Some **bold**")), []);

  expect($(".is-agent")).toBe(line);
  expect($("strong")).toBe(words);
  expect(line.hasAttribute("data-streaming")).toBe(false);
  expect(line.querySelector("[data-action=copy]")).not.toBeNull();
});

test("an answer that ends in a burst is drawn over several frames", async () => {
  transcript.draw([draft("e3", "Part 0.\n\nPa")], [], nothing);
  const parts = Array.from({ length: 14 }, (_, n) => `Part ${n}.`).join("\n\n");
  transcript.apply(conversation(["e3"], agentLine("e3", parts)), []);
  const line = $(".is-agent");
  expect(line.hasAttribute("data-streaming")).toBe(true);
  expect(line.querySelectorAll("[data-markdown] > p").length).toBeLessThan(14);

  await vi.waitFor(() => expect(line.hasAttribute("data-streaming")).toBe(false));
  expect(line.querySelectorAll("[data-markdown] > p")).toHaveLength(14);
});

test("a draft that the server does not know yet stays, one that was given up goes", () => {
  transcript.draw([draft("e3", "Half")], [], nothing);
  transcript.apply(conversation(["message-1"], personLine(1, "hi")), [draft("e3", "Half")]);
  expect(keys()).toEqual(["message-1", "e3"]);
  transcript.apply(conversation(["message-1"], ""), []);

  expect(keys()).toEqual(["message-1"]);
});

test("messages on their way come last, and say why they failed", () => {
  const file = { name: "a.txt", path: "up/a.txt", media_type: "", size: 1 };
  transcript.draw([], [outgoing({ files: [file] })], nothing);
  transcript.draw([draft("e3", "Half")], [outgoing({ files: [file] })], nothing);
  expect(keys()).toEqual(["e3", "outgoing-x"]);
  expect($("a").getAttribute("href")).toBe("/files/up/a.txt");
  expect($("[data-while=sending]").hidden).toBe(false);
  transcript.draw([], [outgoing({ state: "failed", reason: "No." })], nothing);
  expect($("[data-outgoing]").dataset["receipt"]).toBe("failed");
  expect($("[data-reason]").textContent).toBe("No.");
  expect($("[data-action=resend]").hidden).toBe(false);
  transcript.draw([], [], nothing);

  expect(document.querySelector("[data-outgoing]")).toBeNull();
});

test("a person's text is text, whatever it looks like", () => {
  transcript.draw([], [outgoing({ text: "<img src=x onerror=alert(1)>" })], nothing);

  expect($("#list").querySelector("img")).toBeNull();
});

test("the output of a running call is shown in its line, also after the line changed", () => {
  const call = (version: string): string =>
    `<li class="line is-call" data-key="c" data-version="${version}"><p>${version}</p><div data-live-output="t1" data-keep hidden><pre></pre></div></li>`;
  begin(call("one"));
  const outputs = new Map([["t1", { start: 0, text: "<b>hi</b>\n", points: 10 }]]);
  transcript.draw([], [], outputs);
  expect($("pre").textContent).toBe("<b>hi</b>\n");
  transcript.apply(conversation(["c"], call("two")), []);

  expect($("p").textContent).toBe("two");
  expect($("[data-live-output]").hidden).toBe(false);
  expect($("pre").textContent).toBe("<b>hi</b>\n");
});

test("lines that are too old to be updated stay above the others", () => {
  begin(personLine(1, "one") + personLine(2, "two"));
  transcript.apply(conversation(["message-2"], "", { first_seq: 2 }), []);
  transcript.addEarlier(agentLine("e0", "Before"));

  expect([...$("#earlier").children].map((one) => (one as HTMLElement).dataset["key"])).toEqual(["e0", "message-1"]);
  expect($("#earlier").hidden).toBe(false);
  expect(keys()).toEqual(["message-2"]);
});
