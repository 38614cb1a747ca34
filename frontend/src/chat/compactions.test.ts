import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Frame } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import { LineList } from "./renderer.ts";
import { event } from "./samples/frames.ts";
import { begin, type State } from "./state.ts";
import { ContextPanel } from "./status.ts";
import { reduce } from "./transcript.ts";

const compacted = (seq: number, id: string, more: object = {}): Frame =>
  event(seq, "session.context_compacted", {
    snapshot_id: id,
    tokens_before: 61_000,
    tokens_after: 9_200,
    ...more,
  });
const host = {
  mayRun: true,
  summary: vi.fn(async () => "<b>What was said.</b>"),
  undo: vi.fn(async () => undefined),
} as unknown as ChatHost;
const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const buttons = (): string[] =>
  [...document.querySelectorAll<HTMLButtonElement>(".is-compaction button")]
    .filter((one) => !one.hidden)
    .map((one) => one.textContent ?? "");

function after(...frames: Frame[]): State {
  return frames.reduce((state, frame) => reduce(state, { type: "frame", frame }), begin());
}
function draw(...frames: Frame[]): State {
  const state = after(...frames);
  new LineList($("ol"), host).draw(state.items);
  return state;
}

beforeEach(() => {
  document.body.innerHTML = `<ol></ol><section data-context data-url="/x/?panel=1">
    <div data-context-body><details data-part="messages" open></details></div></section>`;
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.clearAllMocks();
});

test("a compaction says how much, shows its summary as text, and can be undone", async () => {
  draw(compacted(1, "one"));

  expect($(".compaction-head span").textContent).toBe("Context compacted 61k → 9.2k tokens");
  expect(buttons()).toEqual(["View summary", "Undo"]);
  $<HTMLButtonElement>(".is-compaction button").click();
  await vi.waitFor(() => expect($(".compaction-summary").hidden).toBe(false));
  expect($(".compaction-summary").textContent).toBe("<b>What was said.</b>");
  expect(buttons()).toEqual(["Hide summary", "Undo"]);
  document.querySelectorAll<HTMLButtonElement>(".is-compaction button")[1]!.click();
  await vi.waitFor(() => expect(host.undo).toHaveBeenCalledWith("one"));
});

test("only the newest can be undone, and an undone one gives the turn back", () => {
  draw(compacted(1, "one"), compacted(2, "two"));
  expect(buttons()).toEqual(["View summary", "View summary", "Undo"]);

  draw(compacted(1, "one"), compacted(2, "two"), compacted(3, "two", { undone: true }));
  expect(buttons()).toEqual(["View summary", "Undo", "View summary"]);
  expect(document.querySelectorAll(".compaction-head span")[2]?.textContent).toContain("undone");
  expect($("ol").textContent).toContain("Compaction undone");
});

test("an event without a snapshot offers nothing", () => {
  draw(event(1, "session.context_compacted", {}));
  expect(buttons()).toEqual([]);
});

test("what is in the way is said on the line", async () => {
  vi.mocked(host.undo).mockRejectedValueOnce(new Error("There is a newer one."));
  draw(compacted(1, "one"));
  document.querySelectorAll<HTMLButtonElement>(".is-compaction button")[1]!.click();
  await vi.waitFor(() => expect($("[role=alert]").textContent).toBe("There is a newer one."));
});

test("the panel is renewed when something ended, and keeps what was open", async () => {
  vi.useFakeTimers();
  const answer = '<p>9k</p><details data-part="messages"></details><details data-part="tools"></details>';
  const asked = vi.fn(async () => new Response(answer));
  vi.stubGlobal("fetch", asked);
  const panel = new ContextPanel($("[data-context]"));

  panel.follow({ ...after(compacted(1, "one")), status: "running" });
  panel.follow(after(compacted(1, "one")));
  panel.follow(after(compacted(1, "one")));
  await vi.advanceTimersByTimeAsync(1_000);

  expect(asked).toHaveBeenCalledTimes(1);
  const open = [...document.querySelectorAll<HTMLDetailsElement>("details")].map((one) => one.open);
  expect(open).toEqual([true, false]);
  panel.close();
  vi.useRealTimers();
});
