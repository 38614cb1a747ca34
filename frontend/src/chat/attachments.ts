/**
 * Attaches files to the next message: dropped, pasted or picked, and uploaded in the background.
 *
 * Before a session exists, files are held until it is created.
 */
import { button, h, icon, say } from "../lib/dom.ts";
import { newId, refusalOf } from "../lib/rest.ts";
import type { Attached } from "./types.ts";

/** The server's limit. */
const MOST = 20;

export interface AttachmentTrayOptions {
  /** The list of chips, the hidden file input and the drop zone. */
  list: HTMLElement;
  picker: HTMLInputElement;
  ground: HTMLElement;
  area: HTMLTextAreaElement;
  largest: number;
  /** Uploads a file immediately. Without it, files are held. */
  put?: (file: File, onShare: (share: number) => void) => Sending;
  remove?: (file: Attached) => void;
  onChange: () => void;
  onProblem: (words: string) => void;
}

interface Chip {
  /** Null for a file restored from an unsent message. */
  file: File | null;
  node: HTMLElement;
  sending: Sending | null;
  attached: Attached | null;
}

export class AttachmentTray {
  private chips: Chip[] = [];
  private readonly listening = new AbortController();
  private readonly options: AttachmentTrayOptions;

  constructor(options: AttachmentTrayOptions) {
    this.options = options;
    const { picker, ground, area } = options;
    const { signal } = this.listening;
    picker.addEventListener("change", () => this.picked(), { signal });
    area.addEventListener("paste", (event) => this.pasted(event), { signal });
    ground.addEventListener("dragover", (event) => this.hovered(event), { signal });
    ground.addEventListener("dragleave", () => ground.removeAttribute("data-over"), { signal });
    ground.addEventListener("drop", (event) => this.dropped(event, event.dataTransfer), { signal });
  }

  /** Whether uploads are still running. */
  get isBusy(): boolean {
    return this.chips.some((chip) => chip.sending !== null);
  }

  /** The selected files. */
  get held(): File[] {
    return this.chips.flatMap((chip) => chip.file ?? []);
  }

  /** Empty the tray and return the uploaded files for a message. */
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

  /** Restore the already uploaded files of an unsent message. */
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
      return `${file.name} is too large (${bytes(file.size)}). The limit is ${bytes(largest)}.`;
    }
    return this.chips.length >= MOST ? `You can attach up to ${MOST} files.` : "";
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
        this.options.onProblem(`Couldn't upload ${file.name}. ${fault.message}`);
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

  /** Paste text from spreadsheets and documents as text, not as the image that comes with it. */
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

/** Return the tray of a form, or undefined if the form takes no files. */
export function attachmentTray(
  form: HTMLElement,
  options: Omit<AttachmentTrayOptions, "list" | "picker" | "area">,
): AttachmentTray | undefined {
  const list = form.querySelector<HTMLElement>("[data-files]");
  const picker = form.querySelector<HTMLInputElement>("[data-picker]");
  const area = form.querySelector<HTMLTextAreaElement>("textarea");
  if (!list || !picker || !area) return undefined;
  form.querySelector("[data-attach]")?.addEventListener("click", () => picker.click());
  return new AttachmentTray({ ...options, list, picker, area });
}

/** Return a function that shows a problem next to the composer. */
export function problemReporter(node: HTMLElement): (words: string) => void {
  return (words) => {
    say(node, words);
    node.hidden = !words;
  };
}

// --- Uploads

export interface Sending {
  done: Promise<Attached>;
  stop(): void;
}

/** Give each upload its own folder: two pasted images have the same name. */
export function placeFor(name: string): string {
  return `uploads/${newId().replaceAll("-", "").slice(-6)}/${name.replaceAll("/", "_")}`;
}

/** Upload with XMLHttpRequest, because `fetch` reports no upload progress. */
export function upload(
  api: string,
  token: string,
  file: File,
  onShare: (share: number) => void = () => undefined,
): Sending {
  const path = placeFor(file.name || "file");
  const request = new XMLHttpRequest();
  const done = new Promise<Attached>((resolve, reject) => {
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onShare(event.loaded / event.total);
    };
    request.onerror = () => reject(new Error("Connection lost."));
    request.onabort = () => reject(new Error("Stopped."));
    request.onload = () => {
      if (request.status >= 300) return reject(refusalOf(request.status, request.responseText));
      const { type: media_type, size } = file;
      resolve({ name: file.name || "file", path, media_type, size });
    };
  });
  request.open("POST", `${api}files/`);
  request.setRequestHeader("X-CSRFToken", token);
  request.setRequestHeader("Accept", "application/json");
  const form = new FormData();
  form.append("path", path);
  form.append("file", file);
  request.send(form);
  return { done, stop: () => request.abort() };
}

/** Return the URL of a session's file. */
export function fileUrl(api: string, path: string): string {
  return `${api}files/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Format a size: `812 B`, `9.4 kB`, `61 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const [value, unit] = size < 1_000_000 ? [size / 1000, "kB"] : [size / 1_000_000, "MB"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}
