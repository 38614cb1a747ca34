/** The queue of messages: reads and changes it on the server, and renders it above the composer. */
import { button, h } from "../lib/dom.ts";
import type { Rest } from "../lib/rest.ts";
import type { OutgoingMessage, Place, QueueEntry } from "./messages.ts";
import type { Action, State } from "./state.ts";

/** Changes within this time are one request. */
const ASK_MS = 100;

interface QueueOptions {
  rest: Rest;
  /** REST path of the queue. */
  path: string;
  now: () => State;
  dispatch: (action: Action) => void;
}

interface Listed {
  results: QueueEntry[];
  last_seq: number;
}

export class Queue {
  private timer: number | undefined;
  /** Seq of the frame to wait for before reading again; 0 for none. */
  private awaited = 0;
  private readonly options: QueueOptions;
  /** No frame reports a reordering, so the queue is read when the page gets the focus. */
  private readonly onSeen = (): void => this.ask();

  constructor(options: QueueOptions) {
    this.options = options;
    document.addEventListener("visibilitychange", this.onSeen);
    window.addEventListener("focus", this.onSeen);
  }

  /** Read the queue soon. */
  ask(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.read(), ASK_MS);
  }

  /** Read the queue if messages wait and something changed. */
  follow(before: State, now: State): void {
    const moved = now.waiting !== before.waiting || now.status !== before.status;
    const came = this.awaited > 0 && now.seq >= this.awaited;
    if (came) this.awaited = 0;
    if (came || (now.waiting.length > 0 && moved)) this.ask();
  }

  async edit(runId: string, text: string): Promise<void> {
    await this.options.rest.patch(this.place(runId), { text });
    this.ask();
  }

  /** Send a queued message into the running answer, or interrupt the answer with it. */
  async sendNow(runId: string, onBusy: "steer" | "interrupt"): Promise<void> {
    await this.options.rest.patch(this.place(runId), { on_busy: onBusy });
    this.ask();
  }

  async remove(runId: string): Promise<void> {
    await this.options.rest.remove(this.place(runId));
    this.ask();
  }

  /** Move a queued message; 0 is next. */
  async move(runId: string, position: number): Promise<void> {
    await this.options.rest.patch(this.place(runId), { position });
    await this.read();
  }

  close(): void {
    window.clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onSeen);
    window.removeEventListener("focus", this.onSeen);
  }

  private async read(): Promise<void> {
    const { rest, path, now, dispatch } = this.options;
    if (!now().waiting.length) return;
    const asOf = now().seq;
    try {
      const { results, last_seq } = await rest.get<Listed>(path);
      // Messages that left the queue meanwhile did so in frames that haven't arrived yet.
      if (last_seq > now().seq) this.awaited = last_seq;
      else dispatch({ type: "queue", entries: results, asOf });
    } catch {
      // The next change reads again; until then the messages stay in place.
    }
  }

  private place(runId: string): string {
    return `${this.options.path}${runId}/`;
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
  private places: Place[] = [];
  private letters: OutgoingMessage[] = [];
  private readonly options: QueueViewOptions;

  constructor(options: QueueViewOptions) {
    this.options = options;
  }

  draw(places: Place[], letters: OutgoingMessage[]): void {
    this.places = places;
    this.letters = letters;
    if (this.editing && !places.some((place) => this.isEdited(place))) this.giveBack(this.editing);
    const now = JSON.stringify([places, letters, this.editing?.runId]);
    if (now === this.drawn) return;
    // A message being edited isn't redrawn.
    if (this.editing && this.drawn && this.options.root.contains(document.activeElement)) return;
    this.drawn = now;
    const held = this.held();
    this.options.root.hidden = places.length + letters.length === 0;
    const count = places.length + letters.length;
    this.options.root.replaceChildren(
      h("p", { class: "queue-head", text: `Queued · ${count}` }),
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
    else if (this.placeOf(runId) < 0) this.options.onDone();
  }

  /** Edit the last queued message; false if there is none. */
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

  /** Hand back text that was edited too late. */
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
      button("Send now, into the running answer", () => this.leave(this.options.onNow(runId, "steer")), {
        class: SMALL,
        icon: "corner-down-left",
      }),
      button("Stop the answer and send now", () => this.leave(this.options.onNow(runId, "interrupt")), {
        class: SMALL,
        icon: "square",
      }),
      button("Edit", () => this.edit(place), { class: SMALL, icon: "pencil" }),
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
    if (this.places.length < 2) return null;
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
