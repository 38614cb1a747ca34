/** The messages that wait, above the composer: reworded, taken back, or sent into the answer now. */
import { button, h } from "./dom.ts";
import type { Letter, Place } from "./messages.ts";

export interface QueueOptions {
  root: HTMLElement;
  onEdit: (runId: string, text: string) => Promise<void>;
  onRemove: (runId: string) => Promise<void>;
  onNow: (runId: string, text: string) => Promise<void>;
}

const SMALL = "btn btn-bare btn-square btn-xs";

export class QueueView {
  private drawn = "";
  private editing: string | null = null;
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

  /** Reword the last one that waits. */
  editLast(): void {
    const last = this.places.findLast((place) => place.runId);
    if (last?.runId) this.edit(last.runId);
  }

  private isEdited(place: Place): boolean {
    return place.runId !== null && place.runId === this.editing;
  }

  private edit(runId: string | null): void {
    this.editing = runId;
    this.drawn = "";
    this.draw(this.places, this.letters);
    this.options.root.querySelector("textarea")?.focus();
  }

  private row(place: Place): HTMLElement {
    const { runId, text } = place;
    const words = h("span", { class: "queue-text", text, title: text });
    if (!runId) return h("li", { class: "queue-row" }, words);
    return h(
      "li",
      { class: "queue-row" },
      words,
      button("Send now, into this answer", () => void this.options.onNow(runId, text), {
        class: SMALL,
        icon: "corner-down-left",
      }),
      button("Edit", () => this.edit(runId), { class: SMALL, icon: "pencil" }),
      button("Remove", () => void this.options.onRemove(runId), { class: SMALL, icon: "x" }),
    );
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
