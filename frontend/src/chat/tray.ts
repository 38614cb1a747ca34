/**
 * The files that will go with the next message: dropped, pasted or picked, uploaded meanwhile.
 *
 * On the page where a conversation begins there is no session yet: files are held until it is made.
 */
import { button, h, icon, say } from "../lib/dom.ts";
import type { Attached } from "./items.ts";
import { bytes } from "./notes.ts";
import type { Sending } from "./upload.ts";

/** As the server counts. */
const MOST = 20;

export interface TrayOptions {
  /** The list of chips, the hidden picker, and where files may be dropped. */
  list: HTMLElement;
  picker: HTMLInputElement;
  ground: HTMLElement;
  area: HTMLTextAreaElement;
  largest: number;
  /** Uploads at once; without it files are held. */
  put?: (file: File, onShare: (share: number) => void) => Sending;
  remove?: (file: Attached) => void;
  onChange: () => void;
  onProblem: (words: string) => void;
}

interface Chip {
  /** Nothing where a message brought it back. */
  file: File | null;
  node: HTMLElement;
  sending: Sending | null;
  attached: Attached | null;
}

export class Tray {
  private chips: Chip[] = [];
  private readonly listening = new AbortController();
  private readonly options: TrayOptions;

  constructor(options: TrayOptions) {
    this.options = options;
    const { picker, ground, area } = options;
    const { signal } = this.listening;
    picker.addEventListener("change", () => this.picked(), { signal });
    area.addEventListener("paste", (event) => this.pasted(event), { signal });
    ground.addEventListener("dragover", (event) => this.hovered(event), { signal });
    ground.addEventListener("dragleave", () => ground.removeAttribute("data-over"), { signal });
    ground.addEventListener("drop", (event) => this.dropped(event, event.dataTransfer), { signal });
  }

  /** Files that are not yet where an agent can read them. */
  get isBusy(): boolean {
    return this.chips.some((chip) => chip.sending !== null);
  }

  /** The files as they are, before they are anywhere. */
  get held(): File[] {
    return this.chips.flatMap((chip) => chip.file ?? []);
  }

  /** What was uploaded, which from now on belongs to a message. */
  take(): Attached[] {
    const files = this.chips.flatMap((chip) => chip.attached ?? []);
    this.chips = [];
    this.draw();
    return files;
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      const wrong = this.problemWith(file);
      if (wrong) this.options.onProblem(wrong);
      else this.begin(file);
    }
    this.draw();
  }

  /** Files of a message that was not sent: they are uploaded already. */
  putBack(files: readonly Attached[]): void {
    for (const attached of files) this.chips.push({ ...this.chipOf(attached), attached });
    this.draw();
  }

  close(): void {
    this.listening.abort();
    for (const chip of this.chips) chip.sending?.stop();
  }

  private problemWith(file: File): string {
    const { largest } = this.options;
    if (file.size > largest) {
      return `${file.name} has ${bytes(file.size)}; a file has at most ${bytes(largest)}.`;
    }
    return this.chips.length >= MOST ? `A message takes at most ${MOST} files.` : "";
  }

  private chipOf({ name, size }: { name: string; size: number }): Chip {
    const shut = button(`Remove ${name}`, () => this.drop(node), {
      class: "btn btn-bare btn-square btn-xs",
      icon: "x",
    });
    const node = h(
      "li",
      { class: "file-chip" },
      icon("paperclip"),
      h("span", { class: "file-name", text: name, title: name }),
      h("span", { class: "file-size", text: bytes(size) }),
      shut,
    );
    return { file: null, node, sending: null, attached: null };
  }

  private begin(file: File): void {
    const bar = h("progress", { max: "1", value: "0", "aria-label": `Uploading ${file.name}` });
    const chip: Chip = { ...this.chipOf(file), file };
    chip.node.lastElementChild?.before(bar);
    this.chips.push(chip);
    bar.hidden = !this.options.put;
    chip.sending = this.options.put?.(file, (share) => (bar.value = share)) ?? null;
    chip.sending?.done.then(
      (attached) => {
        chip.attached = attached;
        this.ended(chip, bar);
      },
      (fault: Error) => {
        if (!this.chips.includes(chip)) return;
        this.chips = this.chips.filter((one) => one !== chip);
        this.options.onProblem(`${file.name} was not uploaded. ${fault.message}`);
        this.ended(chip, bar);
      },
    );
  }

  private ended(chip: Chip, bar: HTMLElement): void {
    chip.sending = null;
    bar.hidden = true;
    this.draw();
  }

  private drop(node: HTMLElement): void {
    const chip = this.chips.find((one) => one.node === node);
    this.chips = this.chips.filter((one) => one !== chip);
    chip?.sending?.stop();
    if (chip?.attached) this.options.remove?.(chip.attached);
    this.draw();
    this.options.area.focus();
  }

  private draw(): void {
    this.options.list.replaceChildren(...this.chips.map((chip) => chip.node));
    this.options.list.hidden = this.chips.length === 0;
    this.options.onChange();
  }

  private picked(): void {
    const { picker, area } = this.options;
    this.add(picker.files ?? []);
    picker.value = "";
    area.focus();
  }

  private hovered(event: DragEvent): void {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.options.ground.toggleAttribute("data-over", true);
  }

  /** Spreadsheets and documents give a picture of their text along with it. The text is what was meant. */
  private pasted(event: ClipboardEvent): void {
    const from = event.clipboardData;
    if (from?.types.includes("text/html") && from.getData("text/plain").trim()) return;
    this.dropped(event, from);
  }

  private dropped(event: Event, from: DataTransfer | null): void {
    this.options.ground.removeAttribute("data-over");
    if (!from?.files.length) return;
    event.preventDefault();
    this.add(from.files);
  }
}

/** The tray of a form, or nothing when its page has none. */
export function trayIn(
  form: HTMLElement,
  options: Omit<TrayOptions, "list" | "picker" | "area">,
): Tray | undefined {
  const list = form.querySelector<HTMLElement>("[data-files]");
  const picker = form.querySelector<HTMLInputElement>("[data-picker]");
  const area = form.querySelector<HTMLTextAreaElement>("textarea");
  if (!list || !picker || !area) return undefined;
  form.querySelector("[data-attach]")?.addEventListener("click", () => picker.click());
  return new Tray({ ...options, list, picker, area });
}

/** Says why something did not go, near the composer. */
export function complaint(node: HTMLElement): (words: string) => void {
  return (words) => {
    say(node, words);
    node.hidden = !words;
  };
}
