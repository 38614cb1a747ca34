/** Previews documents, images, tables and code beside the chat, and lists the files of the session. */
import { button, h, icon, requireElement } from "../lib/dom.ts";
import { renderMarkdown } from "../lib/markdown.ts";
import { reached, type Rest } from "../lib/rest.ts";
import { contentFrame } from "../rich/content-frame.ts";
import { fileUrl } from "./attachments.ts";
import type { Bootstrap } from "./types.ts";

/** Larger files are only downloaded. */
const MOST_BYTES = 2_000_000;
const IMAGES = ["avif", "gif", "jpeg", "jpg", "png", "webp"];
const KINDS: Record<string, string> = {
  htm: "html", html: "html", svg: "svg", md: "markdown", markdown: "markdown", csv: "csv", tsv: "csv", pdf: "pdf",
  ...Object.fromEntries(IMAGES.map((name) => [name, "image"])),
};

interface Entry {
  name: string;
  kind: "file" | "folder" | "link" | "other";
  size: number;
}

interface ArtifactOptions {
  inspector: HTMLElement;
  bootstrap: Bootstrap;
  rest: Rest;
}

export class Artifacts {
  private box: HTMLElement | null = null;
  private opener: Element | null = null;
  private readonly options: ArtifactOptions;

  constructor(options: ArtifactOptions) {
    this.options = options;
  }

  /** Preview a file of the session. */
  async openFile(path: string, size = 0): Promise<void> {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const kind = kindOf(name);
    const { bootstrap } = this.options;
    const download = fileUrl(bootstrap.api, path);
    if (kind === "image" || kind === "pdf") {
      const address = `${bootstrap.files}${path.split("/").map(encodeURIComponent).join("/")}`;
      this.open(name, kind === "image" ? h("img", { src: address, alt: name }) : pdf(address, name), download);
      return;
    }
    if (size > MOST_BYTES) {
      this.open(name, h("p", { text: "This file is too large to preview." }), download);
      return;
    }
    const answer = await reached(fetch(download, { credentials: "same-origin" }));
    if (!answer.ok) throw new Error(`${name} no longer exists.`);
    const bytes = await answer.arrayBuffer();
    const text = new TextDecoder().decode(bytes);
    const body = bytes.byteLength > MOST_BYTES || text.includes("\0")
      ? h("p", { text: "This file has no preview." })
      : await contentOf(kind, text, name);
    this.open(name, body, download);
  }

  /** Preview a code block of an answer. */
  async openText(kind: string, text: string): Promise<void> {
    this.open("Preview", await contentOf(kind, text, ""));
  }

  close(): void {
    this.box?.remove();
    this.box = null;
    this.options.inspector.removeAttribute("data-artifact");
  }

  private open(title: string, body: HTMLElement, download = ""): void {
    const { inspector } = this.options;
    this.close();
    this.opener = document.activeElement;
    const leave = (): void => {
      this.close();
      if (this.opener instanceof HTMLElement) this.opener.focus();
    };
    const box = h("section", { class: "artifact", tabindex: "-1", "aria-labelledby": "artifact-title" },
      h("header", { class: "beside-head" },
        h("h2", { id: "artifact-title", text: title }),
        download && h("a", { class: "btn btn-bare btn-sm", href: download, download: title, text: "Download" }),
        button("Close", leave, { class: "btn btn-bare btn-square btn-sm", icon: "x" }),
      ),
      h("div", { class: "artifact-body" }, body),
    );
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      leave();
    });
    inspector.prepend(box);
    inspector.dataset["artifact"] = "";
    inspector.scrollTop = 0;
    this.box = box;
    if (inspector.hasAttribute("data-closed")) document.querySelector<HTMLElement>("[data-inspector]")?.click();
    box.focus();
  }

  /** List the files of the session in an opened part of the inspector. */
  async listFiles(root: HTMLElement): Promise<void> {
    await this.fill(requireElement(root, "[data-files-body]"), "");
  }

  private async fill(body: HTMLElement, folder: string): Promise<void> {
    const { rest, bootstrap } = this.options;
    const query = new URLSearchParams({ path: folder || "." });
    const { results } = await rest.get<{ results: Entry[] }>(`${bootstrap.api}files/?${query}`);
    const rows = results.map((entry) => this.row(entry, folder ? `${folder}/${entry.name}` : entry.name));
    body.replaceChildren(rows.length ? h("ul", { class: "file-list" }, ...rows) : h("p", { class: "is-muted", text: "No files yet." }));
  }

  private row(entry: Entry, path: string): HTMLElement {
    const row = h("li");
    if (entry.kind === "folder") {
      const inside = h("div", { "data-files-body": true });
      const folder = h("details", {}, h("summary", {}, icon("folder"), h("span", { text: entry.name })), inside);
      folder.addEventListener("toggle", () => {
        if (folder.open) void this.fill(inside, path);
      });
      row.append(folder);
    } else {
      const open = button(entry.name, () => {
        this.openFile(path, entry.size).catch((fault: unknown) => {
          open.title = (fault as Error).message;
        });
      }, { class: "file-row" });
      open.prepend(icon("file-text"));
      open.append(h("span", { class: "file-size", text: sizeOf(entry.size) }));
      open.disabled = entry.kind !== "file";
      row.append(open);
    }
    return row;
  }
}

/** Return how a file is previewed, by its name. */
export function kindOf(name: string): string {
  return KINDS[name.slice(name.lastIndexOf(".") + 1).toLowerCase()] ?? "code";
}

async function contentOf(kind: string, text: string, name: string): Promise<HTMLElement> {
  if (kind === "html" || kind === "svg") return contentFrame({ kind, text }, name || "Preview");
  if (kind === "csv") return (await import("../rich/csv.ts")).drawCsv(text);
  const prose = h("div", { class: "prose" });
  if (kind === "markdown") renderMarkdown(prose, text);
  else {
    const language = name.slice(name.lastIndexOf(".") + 1);
    renderMarkdown(prose, `${FENCE}${language}\n${text.replaceAll(FENCE, "")}\n${FENCE}`);
  }
  return prose;
}
/** Longer than any fence that a file is likely to contain. */
const FENCE = "`".repeat(30);

function pdf(address: string, name: string): HTMLElement {
  return h("iframe", { class: "content-frame is-pdf", src: address, title: name });
}

function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
