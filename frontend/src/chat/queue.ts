/** The queue of messages: changes it on the server, and renders it above the composer. */
import { button, h } from "../lib/dom.ts";
import type { Rest } from "../lib/rest.ts";
import type { OutgoingMessage } from "./outbox.ts";
import type { QueuedRun } from "./types.ts";

export class Queue {
  private readonly rest: Rest;
  /** REST path of the queue. */
  private readonly path: string;
  /** Called after a change, to show it before its frame arrives. */
  private readonly onChanged: () => void;

  constructor(rest: Rest, path: string, onChanged: () => void) {
    this.rest = rest;
    this.path = path;
    this.onChanged = onChanged;
  }

  async edit(runId: string, text: string): Promise<void> {
    await this.rest.patch(this.runPath(runId), { text });
    this.onChanged();
  }

  /** Send a queued message into the running answer, or interrupt the answer with it. */
  async sendNow(runId: string, onBusy: "steer" | "interrupt"): Promise<void> {
    await this.rest.patch(this.runPath(runId), { on_busy: onBusy });
    this.onChanged();
  }

  async remove(runId: string): Promise<void> {
    await this.rest.remove(this.runPath(runId));
    this.onChanged();
  }

  /** Move a queued message; 0 is next. */
  async move(runId: string, position: number): Promise<void> {
    await this.rest.patch(this.runPath(runId), { position });
    this.onChanged();
  }

  private runPath(runId: string): string {
    return `${this.path}${runId}/`;
  }
}

// --- The list above the composer

interface QueueViewOptions {
  root: HTMLElement;
  /** Resolves to whether it succeeded. */
  onEdit: (runId: string, text: string) => Promise<boolean>;
  /** The edited message left the queue; hands over the edited text. */
  onLate: (text: string) => void;
  onRemove: (runId: string) => Promise<unknown>;
  onNow: (runId: string, onBusy: "steer" | "interrupt") => Promise<unknown>;
  onMove: (runId: string, position: number) => Promise<unknown>;
  /** The focused row disappeared. */
  onDone: () => void;
}

interface Editing {
  runId: string;
  before: string;
  area: HTMLTextAreaElement;
  node: HTMLElement;
}

interface Held {
  runId: string;
  label: string | null;
}

const SMALL = "btn btn-bare btn-square btn-xs";

export class QueueView {
  private drawn = "";
  private editing: Editing | null = null;
  private dragged: string | null = null;
  private runs: readonly QueuedRun[] = [];
  private messages: readonly OutgoingMessage[] = [];
  private readonly options: QueueViewOptions;

  constructor(options: QueueViewOptions) {
    this.options = options;
  }

  /** Draw the server's queue, and below it messages that are on their way there. */
  draw(runs: readonly QueuedRun[], messages: readonly OutgoingMessage[]): void {
    this.runs = runs;
    this.messages = messages;
    if (this.editing && !runs.some((run) => this.isEdited(run))) this.giveBack(this.editing);
    const now = JSON.stringify([runs, messages, this.editing?.runId]);
    if (now === this.drawn) return;
    // A message being edited isn't redrawn.
    if (this.editing && this.drawn && this.options.root.contains(document.activeElement)) return;
    this.drawn = now;
    const held = this.held();
    const count = runs.length + messages.length;
    this.options.root.hidden = count === 0;
    this.options.root.replaceChildren(
      h("p", { class: "queue-head", text: `Queued · ${count}` }),
      h(
        "ol",
        { class: "queue-list" },
        ...runs.map((run) => (this.isEdited(run) ? this.editing!.node : this.row(run))),
        ...messages.map(({ text }) =>
          h("li", { class: "queue-row" }, h("span", { class: "queue-text", text })),
        ),
      ),
    );
    if (held) this.hold(held);
  }

  /** Return the focused button and its message, as redrawing replaces the rows. */
  private held(): Held | null {
    const root = this.options.root;
    const focused = root.contains(document.activeElement) ? document.activeElement : null;
    const runId = focused?.closest<HTMLElement>("[data-run]")?.dataset["run"];
    return runId ? { runId, label: focused!.ariaLabel } : null;
  }

  private hold({ runId, label }: Held): void {
    const rows = [...this.options.root.querySelectorAll<HTMLElement>("[data-run]")];
    const row = rows.find((one) => one.dataset["run"] === runId);
    const buttons = [...(row?.querySelectorAll("button") ?? [])];
    const same = buttons.find((one) => one.ariaLabel === label);
    if (same) same.focus();
    else if (this.positionOf(runId) < 0) this.options.onDone();
  }

  /** Edit the last queued message; false if there is none. */
  editLast(): boolean {
    const last = this.runs.at(-1);
    if (last) this.edit(last);
    return last !== undefined;
  }

  private isEdited(run: QueuedRun): boolean {
    return run.run_id === this.editing?.runId;
  }

  private edit(run: QueuedRun | null): void {
    this.editing = run ? this.editor(run.run_id, run.text) : null;
    this.drawn = "";
    this.draw(this.runs, this.messages);
    if (this.editing) this.editing.area.focus();
    else this.options.onDone();
  }

  /** Hand back text that was edited too late. */
  private giveBack({ area, before }: Editing): void {
    this.editing = null;
    this.drawn = "";
    const text = area.value.trim();
    if (text && text !== before.trim()) this.options.onLate(area.value);
  }

  private row(run: QueuedRun): HTMLElement {
    const { run_id: runId, text } = run;
    const words = h("span", { class: "queue-text", text, title: text });
    const row = h(
      "li",
      { class: "queue-row", "data-run": runId },
      this.grip(runId),
      words,
      button("Send now, into the running answer", () => this.leave(this.options.onNow(runId, "steer")), {
        class: SMALL,
        icon: "corner-down-left",
      }),
      button("Stop the answer and send now", () => this.leave(this.options.onNow(runId, "interrupt")), {
        class: SMALL,
        icon: "square",
      }),
      button("Edit", () => this.edit(run), { class: SMALL, icon: "pencil" }),
      button("Remove", () => this.leave(this.options.onRemove(runId)), { class: SMALL, icon: "x" }),
    );
    this.takesDrops(row, runId);
    return row;
  }

  /** Move the focus before the row disappears. */
  private leave(done: Promise<unknown>): void {
    this.options.onDone();
    void done;
  }

  /** Return the drag handle, which also moves the message with the arrow keys. */
  private grip(runId: string): HTMLElement | null {
    if (this.runs.length < 2) return null;
    const grip = button("Drag to reorder, or use the arrow keys", () => undefined, {
      class: `${SMALL} queue-grip`,
      icon: "grip-vertical",
      draggable: "true",
    });
    grip.dataset["grip"] = runId;
    grip.addEventListener("dragstart", (event) => {
      this.dragged = runId;
      event.dataTransfer?.setData("text/plain", "");
    });
    grip.addEventListener("dragend", () => (this.dragged = null));
    grip.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
      if (!by) return;
      event.preventDefault();
      this.move(runId, this.positionOf(runId) + by);
    });
    return grip;
  }

  private takesDrops(row: HTMLElement, runId: string): void {
    row.addEventListener("dragover", (event) => {
      if (!this.dragged || this.dragged === runId) return;
      event.preventDefault();
      row.toggleAttribute("data-over", true);
    });
    row.addEventListener("dragleave", () => row.removeAttribute("data-over"));
    row.addEventListener("drop", (event) => {
      row.removeAttribute("data-over");
      if (!this.dragged) return;
      event.preventDefault();
      event.stopPropagation();
      this.move(this.dragged, this.positionOf(runId));
    });
  }

  private positionOf(runId: string): number {
    return this.runs.findIndex((run) => run.run_id === runId);
  }

  private move(runId: string, position: number): void {
    if (position < 0 || position >= this.runs.length) return;
    void this.options.onMove(runId, position);
  }

  private editor(runId: string, before: string): Editing {
    const area = h("textarea", { class: "queue-edit", rows: "2", "aria-label": "Queued message" });
    area.value = before;
    const save = async (): Promise<void> => {
      const text = area.value.trim();
      const isDone = !text || text === before || (await this.options.onEdit(runId, area.value));
      if (isDone && this.editing === mine) this.edit(null);
    };
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        this.edit(null);
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        void save();
      }
    });
    const node = h(
      "li",
      { class: "queue-row is-edited" },
      area,
      button("Cancel", () => this.edit(null), { class: "btn btn-sm btn-quiet" }),
      button("Save", () => void save(), { class: "btn btn-sm btn-primary" }),
    );
    const mine: Editing = { runId, before, area, node };
    return mine;
  }
}
