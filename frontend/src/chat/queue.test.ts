import { beforeEach, expect, test, vi } from "vitest";
import { QueueView } from "./queue.ts";
import type { QueuedRun } from "./types.ts";

type Options = ConstructorParameters<typeof QueueView>[0];

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

const onDone = vi.fn();

beforeEach(() => {
  onDone.mockClear();
  document.body.innerHTML = `<div id="queue"></div>`;
});

function queueWith(more: Partial<Options>): QueueView {
  return new QueueView({
    root: $("#queue"),
    onEdit: async () => true,
    onLate: () => undefined,
    onRemove: async () => undefined,
    onNow: async () => undefined,
    onMove: async () => undefined,
    onDone,
    ...more,
  });
}

test("a waiting message is edited in place, and a redraw meanwhile does not disturb it", async () => {
  const edits: [string, string][] = [];
  const queue = queueWith({ onEdit: async (runId, text) => edits.push([runId, text]) > 0 });
  const run = { run_id: "r1", text: "later" };
  queue.draw([run], []);
  queue.editLast();
  const area = $<HTMLTextAreaElement>("#queue textarea");
  area.value = "much later";
  queue.draw([run, { run_id: "r2", text: "another" }], []);
  expect($("#queue textarea")).toBe(area);
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  await vi.waitFor(() => expect(edits).toEqual([["r1", "much later"]]));
  await vi.waitFor(() => expect(onDone).toHaveBeenCalledOnce());

  queue.draw([], []);
  expect($("#queue").hidden).toBe(true);
});

test("a waiting message is moved by the arrows, sent into the answer, or sent instead of it", () => {
  const said: unknown[] = [];
  const queue = queueWith({
    onNow: async (...how) => void said.push(how),
    onMove: async (...how) => void said.push(how),
  });
  const run = (id: string): QueuedRun => ({ run_id: id, text: id });
  queue.draw([run("r1")], []);
  expect(document.querySelector("[data-grip]")).toBeNull();
  queue.draw([run("r1"), run("r2")], []);
  const grip = $("[data-grip=r2]");
  const press = (key: string): boolean => grip.dispatchEvent(new KeyboardEvent("keydown", { key }));
  press("ArrowDown");
  press("ArrowUp");
  $("[aria-label^=Stop]").click();
  $("[aria-label^=Send]").click();
  expect(onDone).toHaveBeenCalledTimes(2);

  expect(said).toEqual([["r2", 0], ["r1", "interrupt"], ["r1", "steer"]]);
});

test("a list drawn anew leaves the focus on the button that had it, and does not lose it with its row", () => {
  const queue = queueWith({});
  const [first, second] = ["r1", "r2"].map((id) => ({ run_id: id, text: id }));
  queue.draw([first!, second!], []);
  $("[data-grip=r2]").focus();
  queue.draw([second!, first!], []);
  expect($("#queue li [data-grip]").dataset["grip"]).toBe("r2");
  expect(document.activeElement).toBe($("[data-grip=r2]"));

  $("[data-run=r2] [aria-label=Edit]").focus();
  queue.draw([{ ...second!, text: "r2 again" }, first!], []);
  expect(document.activeElement).toBe($("[data-run=r2] [aria-label=Edit]"));
  expect(onDone).not.toHaveBeenCalled();

  queue.draw([first!], []);
  expect(onDone).toHaveBeenCalledOnce();
});

const later = { run_id: "r1", text: "later" };

function typed(queue: QueueView, text: string): HTMLTextAreaElement {
  queue.draw([later], []);
  queue.editLast();
  const area = $<HTMLTextAreaElement>("#queue textarea");
  area.value = text;
  return area;
}

test("a new wording that could not be saved stays where it is typed", async () => {
  const area = typed(queueWith({ onEdit: async () => false }), "much later");
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  await Promise.resolve();

  expect($<HTMLTextAreaElement>("#queue textarea").value).toBe("much later");
});

test("a new wording is kept when something else is drawn and the focus is elsewhere", () => {
  const queue = queueWith({});
  typed(queue, "much later").blur();
  queue.draw([later, { run_id: "r2", text: "another" }], []);

  expect($<HTMLTextAreaElement>("#queue textarea").value).toBe("much later");
  expect(document.querySelectorAll(".queue-row")).toHaveLength(2);
});

test("a new wording that comes too late is given back, an old one is not", () => {
  const late: string[] = [];
  const queue = queueWith({ onLate: (text) => late.push(text) });
  typed(queue, "much later");
  queue.draw([], []);
  typed(queue, "later");
  queue.draw([], []);

  expect(late).toEqual(["much later"]);
  expect($("#queue").hidden).toBe(true);
});
