/** Entry of the builder page: shows changes to the draft as they happen. */
import { requireElement, say } from "../lib/dom.ts";
import { type Island, lazy, mountIslands } from "../lib/islands.ts";
import { fetchPart } from "../lib/pages.ts";
import { restWith } from "../lib/rest.ts";
import { connect } from "../lib/socket.ts";
import { highlight, mergeForm, putUnsaved, type Unsaved, unsavedIn, watchForm } from "./form.ts";

/** Changes made by one call arrive together. */
const GATHER_MS = 60;

interface Frame {
  type?: string;
  phase?: string;
  revision?: number;
  part?: string;
  author?: { session_id: string | null };
}

/** A failed request is repeated with the next change of the draft. */
const ignore = (): void => undefined;

const builder: Island = (root) => {
  const side = root.dataset["side"] ?? "";
  const said = requireElement<HTMLElement>(root, "[data-build-said]");
  const token = requireElement<HTMLInputElement>(document, "[name=csrfmiddlewaretoken]").value;
  const listening = new AbortController();
  const changed = new Set<string>();
  let revision = Number(root.dataset["revision"] ?? 0);
  let tab = root.dataset["tab"] ?? "configure";
  let requests = 0;
  let unsaved: Unsaved = new Map();
  let timer: number | undefined;
  const link = connect({
    path: () => `${root.dataset["socket"]}?after=${revision}`,
    onMessage: (text) => onFrame(JSON.parse(text) as Frame),
    onState: () => undefined,
  });

  function onFrame(frame: Frame): void {
    if (frame.type !== "draft" || (frame.revision ?? 0) <= revision) return;
    if (frame.part) changed.add(frame.part);
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void refresh(), GATHER_MS);
  }

  /** Fetch the parts again; only the latest response is shown. */
  async function refresh(): Promise<void> {
    requests += 1;
    const mine = requests;
    const parts = [...changed];
    const page = await read(tab);
    if (!page || mine !== requests) return;
    parts.forEach((part) => changed.delete(part));
    revision = Math.max(revision, page.revision);
    swap(page, { keepForm: true });
    highlight(root, parts);
    if (parts.length) say(said, `Changed: ${parts.join(", ").replaceAll("_", " ")}`);
    // The next message of a preview runs the newest draft.
    if (tab === "preview") await restWith(token).post(root.dataset["preview"] ?? "", {}).catch(ignore);
  }

  /** Fetch the parts, or return null if the request is cut off. */
  async function read(wanted: string): Promise<Parts | null> {
    try {
      return partsIn(await fetchPart(`${side}?tab=${wanted}`));
    } catch {
      return null;
    }
  }

  async function show(next: string): Promise<void> {
    requests += 1;
    const mine = requests;
    const page = await read(next);
    if (mine !== requests) return;
    requireElement<HTMLElement>(root, "[data-build-lost]").hidden = page !== null;
    if (!page) return;
    tab = next;
    root.dataset["tab"] = root.dataset["onPhone"] = next;
    for (const one of root.querySelectorAll<HTMLElement>(".build-tab")) {
      if (one.dataset["tabLink"] === next) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
    history.replaceState(null, "", `?tab=${next}`);
    keepUnsaved();
    closeCanvas(root);
    swap(page, { keepForm: false });
    openCanvas(root);
    restoreUnsaved();
    // A new tab starts at its top. On a phone the document scrolls, elsewhere the tab's own box.
    window.scrollTo({ top: 0 });
    requireElement<HTMLElement>(root, ".build-scroll").scrollTop = 0;
  }

  /** Keep unsaved input while another tab is shown. */
  function keepUnsaved(): void {
    const form = root.querySelector<HTMLFormElement>("[data-build-form]");
    if (form) unsaved = unsavedIn(form);
  }
  function restoreUnsaved(): void {
    const form = root.querySelector<HTMLFormElement>("[data-build-form]");
    if (!form) return;
    putUnsaved(form, unsaved);
    unsaved = new Map();
  }

  /**
   * Opening or leaving the preview loads the page again, because the preview is a separate chat.
   */
  function onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const chosen = target.closest<HTMLElement>("[data-tab-link]")?.dataset["tabLink"];
    if (!chosen || chosen === "preview" || tab === "preview") return;
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    void show(chosen);
  }

  root.addEventListener("click", onClick, { signal: listening.signal });
  const stopWatching = watchForm(root, () => unsaved.size > 0);
  return () => {
    listening.abort();
    window.clearTimeout(timer);
    stopWatching();
    closeCanvas(root);
    link.close();
  };
};

/** Mount the canvas of a tab that was swapped in. */
function openCanvas(root: HTMLElement): void {
  const box = root.querySelector("[data-island=canvas]")?.parentElement;
  if (box) mountIslands(box, { canvas: lazy(() => import("../canvas/canvas.tsx")) });
}

/** Unmount the canvas of this tab, whether it came with the page or was swapped in. */
function closeCanvas(root: HTMLElement): void {
  root.querySelector("[data-island=canvas]")?.dispatchEvent(new Event("island-close"));
}

export default builder;

// --- Swapping parts

export interface Parts {
  revision: number;
  /** Keyed by `data-live`. */
  regions: Map<string, HTMLElement>;
}

/** Read the parts from HTML rendered by our own template. */
export function partsIn(page: Document): Parts {
  const regions = new Map<string, HTMLElement>();
  for (const one of page.querySelectorAll<HTMLElement>("[data-live]")) {
    regions.set(one.dataset["live"] ?? "", one);
  }
  const element = page.querySelector<HTMLDataElement>("[data-build-revision]");
  return { revision: Number(element?.getAttribute("value") ?? 0), regions };
}

export function swap(parts: Parts, { keepForm }: { keepForm: boolean }): void {
  for (const one of document.querySelectorAll<HTMLElement>("[data-live]")) {
    const newer = parts.regions.get(one.dataset["live"] ?? "");
    if (!newer) continue;
    const form = one.querySelector<HTMLFormElement>("[data-build-form]");
    const next = newer.querySelector<HTMLFormElement>("[data-build-form]");
    // The editor of the canvas follows its own socket.
    if (keepForm && one.querySelector("[data-island=canvas]")) continue;
    if (keepForm && form && next) mergeForm(form, next);
    else {
      one.replaceChildren(...[...newer.childNodes].map((node) => document.adoptNode(node)));
      one.dispatchEvent(new Event("times-shown", { bubbles: true }));
    }
  }
}
