/** The messages that wait, above the composer: reworded, taken back, or sent into the answer now. */
import { button, h } from "../lib/dom.ts";
import type { Letter, Place } from "./messages.ts";

interface QueueOptions {
  root: HTMLElement;
  /** Says whether it was done. */
  onEdit: (runId: string, text: string) => Promise<boolean>;
  /** Its run has begun, or somebody took it back: what was typed meanwhile. */
  onLate: (text: string) => void;
  onRemove: (runId: string) => Promise<unknown>;
  onNow: (runId: string, onBusy: "steer" | "interrupt") => Promise<unknown>;
  onMove: (runId: string, position: number) => Promise<unknown>;
  /** What was under the hand is gone: where to go on. */
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
  private places: Place[] = [];
  private letters: Letter[] = [];
  private readonly options: QueueOptions;

  constructor(options: QueueOptions) {
    this.options = options;
  }

  draw(places: Place[], letters: Letter[]): void {
    this.places = places;
    this.letters = letters;
    if (this.editing && !places.some((place) => this.isEdited(place))) this.giveBack(this.editing);
    const now = JSON.stringify([places, letters, this.editing?.runId]);
    if (now === this.drawn) return;
    // What is being reworded is left alone until it is done.
    if (this.editing && this.drawn && this.options.root.contains(document.activeElement)) return;
    this.drawn = now;
    const held = this.held();
    this.options.root.hidden = places.length + letters.length === 0;
    const count = places.length + letters.length;
    this.options.root.replaceChildren(
      h("p", { class: "queue-head", text: `Waiting · ${count}` }),
      h(
        "ol",
        { class: "queue-list" },
        ...places.map((place) => (this.isEdited(place) ? this.editing!.node : this.row(place))),
        ...letters.map((letter) =>
          h("li", { class: "queue-row" }, h("span", { class: "queue-text", text: letter.text })),
        ),
      ),
    );
    if (held) this.hold(held);
  }

  /** Which button has the focus, and of which message: the rows are drawn anew under the hand. */
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
    else if (this.placeOf(runId) < 0) this.options.onDone();
  }

  /** Reword the last one that waits; false when none does. */
  editLast(): boolean {
    const last = this.places.findLast((place) => place.runId);
    if (last) this.edit(last);
    return last !== undefined;
  }

  private isEdited(place: Place): boolean {
    return place.runId !== null && place.runId === this.editing?.runId;
  }

  private edit(place: Place | null): void {
    this.editing = place?.runId ? this.editor(place.runId, place.text) : null;
    this.drawn = "";
    this.draw(this.places, this.letters);
    if (this.editing) this.editing.area.focus();
    else this.options.onDone();
  }

  /** What was typed is not lost because it was typed too late. */
  private giveBack({ area, before }: Editing): void {
    this.editing = null;
    this.drawn = "";
    const text = area.value.trim();
    if (text && text !== before.trim()) this.options.onLate(area.value);
  }

  private row(place: Place): HTMLElement {
    const { runId, text } = place;
    const words = h("span", { class: "queue-text", text, title: text });
    if (!runId) return h("li", { class: "queue-row" }, words);
    const row = h(
      "li",
      { class: "queue-row", "data-run": runId },
      this.grip(runId),
      words,
      button("Send now, into this answer", () => this.leave(this.options.onNow(runId, "steer")), {
        class: SMALL,
        icon: "corner-down-left",
      }),
      button("Stop the answer and send this", () => this.leave(this.options.onNow(runId, "interrupt")), {
        class: SMALL,
        icon: "square",
      }),
      button("Edit", () => this.edit(place), { class: SMALL, icon: "pencil" }),
      button("Remove", () => this.leave(this.options.onRemove(runId)), { class: SMALL, icon: "x" }),
    );
    this.takesDrops(row, runId);
    return row;
  }

  /** The row is about to go, and the focus must not go with it. */
  private leave(done: Promise<unknown>): void {
    this.options.onDone();
    void done;
  }

  /** What one drags a message by; with the keyboard the arrows move it. */
  private grip(runId: string): HTMLElement | null {
    if (this.places.length < 2) return null;
    const grip = button("Move: drag, or press the arrows up and down", () => undefined, {
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
      this.move(runId, this.placeOf(runId) + by);
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
      this.move(this.dragged, this.placeOf(runId));
    });
  }

  private placeOf(runId: string): number {
    return this.places.findIndex((place) => place.runId === runId);
  }

  private move(runId: string, position: number): void {
    if (position < 0 || position >= this.places.length) return;
    void this.options.onMove(runId, position);
  }

  private editor(runId: string, before: string): Editing {
    const area = h("textarea", { class: "queue-edit", rows: "2", "aria-label": "Waiting message" });
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
