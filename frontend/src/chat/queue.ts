/** The messages that wait, above the composer: reworded, taken back, or sent into the answer now. */
import { button, h } from "../lib/dom.ts";
import type { Letter, Place } from "./messages.ts";

interface QueueOptions {
  root: HTMLElement;
  onEdit: (runId: string, text: string) => Promise<void>;
  onRemove: (runId: string) => Promise<void>;
  onNow: (runId: string, text: string, onBusy: "steer" | "interrupt") => Promise<void>;
  onMove: (runId: string, position: number) => Promise<void>;
  /** What was under the hand is gone: where to go on. */
  onDone: () => void;
}

const SMALL = "btn btn-bare btn-square btn-xs";

export class QueueView {
  private drawn = "";
  private editing: string | null = null;
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
    if (this.editing && !places.some((place) => place.runId === this.editing)) this.editing = null;
    const now = JSON.stringify([places, letters, this.editing]);
    if (now === this.drawn) return;
    // What is being reworded is left alone until it is done.
    if (this.editing && this.drawn && this.options.root.contains(document.activeElement)) return;
    this.drawn = now;
    this.options.root.hidden = places.length + letters.length === 0;
    const count = places.length + letters.length;
    this.options.root.replaceChildren(
      h("p", { class: "queue-head", text: `Waiting · ${count}` }),
      h(
        "ol",
        { class: "queue-list" },
        ...places.map((place) => (this.isEdited(place) ? this.editor(place) : this.row(place))),
        ...letters.map((letter) =>
          h("li", { class: "queue-row" }, h("span", { class: "queue-text", text: letter.text })),
        ),
      ),
    );
  }

  /** Reword the last one that waits; false when none does. */
  editLast(): boolean {
    const last = this.places.findLast((place) => place.runId);
    if (last?.runId) this.edit(last.runId);
    return last !== undefined;
  }

  private isEdited(place: Place): boolean {
    return place.runId !== null && place.runId === this.editing;
  }

  private edit(runId: string | null): void {
    this.editing = runId;
    this.drawn = "";
    this.draw(this.places, this.letters);
    if (runId) this.options.root.querySelector("textarea")?.focus();
    else this.options.onDone();
  }

  private row(place: Place): HTMLElement {
    const { runId, text } = place;
    const words = h("span", { class: "queue-text", text, title: text });
    if (!runId) return h("li", { class: "queue-row" }, words);
    const row = h(
      "li",
      { class: "queue-row" },
      this.grip(runId),
      words,
      button("Send now, into this answer", () => this.leave(this.options.onNow(runId, text, "steer")), {
        class: SMALL,
        icon: "corner-down-left",
      }),
      button("Stop the answer and send this", () => this.leave(this.options.onNow(runId, text, "interrupt")), {
        class: SMALL,
        icon: "square",
      }),
      button("Edit", () => this.edit(runId), { class: SMALL, icon: "pencil" }),
      button("Remove", () => this.leave(this.options.onRemove(runId)), { class: SMALL, icon: "x" }),
    );
    this.takesDrops(row, runId);
    return row;
  }

  /** The row is about to go, and the focus must not go with it. */
  private leave(done: Promise<void>): void {
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
      void this.move(runId, this.placeOf(runId) + by);
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
      void this.move(this.dragged, this.placeOf(runId));
    });
  }

  private placeOf(runId: string): number {
    return this.places.findIndex((place) => place.runId === runId);
  }

  private async move(runId: string, position: number): Promise<void> {
    if (position < 0 || position >= this.places.length) return;
    await this.options.onMove(runId, position);
    // The row was drawn anew; the hand stays on it.
    const grips = this.options.root.querySelectorAll<HTMLElement>("[data-grip]");
    [...grips].find((one) => one.dataset["grip"] === runId)?.focus();
  }

  private editor(place: Place): HTMLElement {
    const area = h("textarea", { class: "queue-edit", rows: "2", "aria-label": "Waiting message" });
    area.value = place.text;
    const save = async (): Promise<void> => {
      const text = area.value.trim();
      if (text && text !== place.text) await this.options.onEdit(place.runId!, area.value);
      this.edit(null);
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
    return h(
      "li",
      { class: "queue-row is-edited" },
      area,
      button("Cancel", () => this.edit(null), { class: "btn btn-sm btn-quiet" }),
      button("Save", () => void save(), { class: "btn btn-sm btn-primary" }),
    );
  }
}
