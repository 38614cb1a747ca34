/** One log, told by this script. `tests/sessions_app/pages/test_one_log.py` has the server tell the same. */
import { expect, test } from "vitest";
import { ruleOf, titleOf } from "./calls.ts";
import { type Frame, frameOf, type StoredEvent } from "./frames.ts";
import LOG from "./samples/one_log.json";
import { begin, type Item } from "./state.ts";
import { reduce, visibleItems } from "./transcript.ts";

const EVENTS = LOG.events as unknown as StoredEvent[];
const FRAMES = LOG.frames as unknown as Frame[];
const TOOLS = { exec: { title: "Run a command", subject: "command", effects: "", covers: "" } };

function told(frames: readonly Frame[]): string[] {
  return visibleItems(frames.reduce((state, frame) => reduce(state, { type: "frame", frame }), begin())).map(wordsOf);
}

function wordsOf(item: Item): string {
  switch (item.kind) {
    case "user": {
      const files = item.files.length ? ` [${item.files.map((one) => one.name).join(", ")}]` : "";
      return `> ${item.author}: ${item.text}${files}${item.receipt === "steered" ? " (joined)" : ""}`;
    }
    case "agent":
      return item.text;
    case "steps": {
      const failed = item.calls.filter((call) => call.state !== "completed").length;
      return `${item.calls.length} steps, ${failed} failed`;
    }
    case "call":
      if (item.child) return `(${item.child.title} ${item.child.state}: ${item.child.result})`;
      // The time and the note are on the page only while the script lives.
      return `[${titleOf(item.name, TOOLS[item.name as "exec"])}: ${item.state}] ${ruleOf(item).replace(/ at \d.*/, "")}`;
    case "error":
      return `! ${item.message}${item.retryable ? " (retry)" : ""}`;
    case "compaction":
      return `= ${item.text}`;
    case "note":
      return `- ${item.text}`;
    default:
      throw new Error(item.kind);
  }
}

test("what REST lists is told as the server tells it", () => {
  expect(told(EVENTS.map(frameOf))).toEqual(LOG.told);
});

test("what sockets send is told the same", () => {
  expect(told(FRAMES)).toEqual(LOG.told);
});

test.each(EVENTS.map((event, nth) => [event.seq, event.type, nth] as const))(
  "event %i, %s, has the same frame from REST as from a socket",
  (_seq, _type, nth) => {
    expect(frameOf(EVENTS[nth]!)).toMatchObject(FRAMES[nth]!);
  },
);
