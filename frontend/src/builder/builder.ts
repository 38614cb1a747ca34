/** The entry of the builder page's own script: what changes in the draft is shown at once. */
import { need, say } from "../lib/dom.ts";
import { connect } from "../lib/link.ts";
import { fetchPart } from "../lib/part.ts";
import { restWith } from "../lib/rest.ts";
import type { Island } from "../lib/islands.ts";
import { light, putUnsaved, unsavedIn, watchForm, type Unsaved } from "./form.ts";
import { type Parts, partsIn, swap } from "./swap.ts";

/** Several changes of one call come together. */
const ASK_MS = 60;

interface Frame {
  type?: string;
  phase?: string;
  revision?: number;
  part?: string;
  author?: { session_id: string | null };
}

/** The next change of the draft tries again. */
const quiet = (): void => undefined;

const builder: Island = (root) => {
  const side = root.dataset["side"] ?? "";
  const said = need<HTMLElement>(root, "[data-build-said]");
  const token = need<HTMLInputElement>(document, "[name=csrfmiddlewaretoken]").value;
  const listening = new AbortController();
  const changed = new Set<string>();
  let revision = Number(root.dataset["revision"] ?? 0);
  let tab = root.dataset["tab"] ?? "configure";
  let asked = 0;
  let unsaved: Unsaved = new Map();
  let timer: number | undefined;

  const link = connect({
    path: () => `${root.dataset["socket"]}?after=${revision}`,
    onMessage: (text) => hear(JSON.parse(text) as Frame),
    onState: () => undefined,
  });

  function hear(frame: Frame): void {
    if (frame.type !== "draft" || (frame.revision ?? 0) <= revision) return;
    if (frame.part) changed.add(frame.part);
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void refresh(), ASK_MS);
  }

  /** Only the newest answer is shown. */
  async function refresh(): Promise<void> {
    asked += 1;
    const mine = asked;
    const parts = [...changed];
    const page = await read(tab);
    if (!page || mine !== asked) return;
    parts.forEach((part) => changed.delete(part));
    revision = Math.max(revision, page.revision);
    swap(page, { keepForm: true });
    light(root, parts);
    if (parts.length) say(said, `Changed: ${parts.join(", ").replaceAll("_", " ")}`);
    // The next message of a preview runs the newest draft.
    if (tab === "preview") await restWith(token).post(root.dataset["preview"] ?? "", {}).catch(quiet);
  }

  /** The parts as they are now, or nothing: whoever leaves the page or its network cuts this off. */
  async function read(wanted: string): Promise<Parts | null> {
    try {
      return partsIn(await fetchPart(`${side}?tab=${wanted}`));
    } catch {
      return null;
    }
  }

  async function show(next: string): Promise<void> {
    asked += 1;
    const mine = asked;
    const page = await read(next);
    if (mine !== asked) return;
    need<HTMLElement>(root, "[data-build-lost]").hidden = page !== null;
    if (!page) return;
    tab = next;
    root.dataset["tab"] = root.dataset["onPhone"] = next;
    for (const one of root.querySelectorAll<HTMLElement>(".build-tab")) {
      if (one.dataset["tabLink"] === next) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
    history.replaceState(null, "", `?tab=${next}`);
    hold();
    swap(page, { keepForm: false });
    giveBack();
    // Another tab begins at its top: on a phone the document scrolls, else the tab's own box.
    window.scrollTo({ top: 0 });
    need<HTMLElement>(root, ".build-scroll").scrollTop = 0;
  }

  /** What is typed and not saved is kept while another tab is shown. */
  function hold(): void {
    const form = root.querySelector<HTMLFormElement>("[data-build-form]");
    if (form) unsaved = unsavedIn(form);
  }
  function giveBack(): void {
    const form = root.querySelector<HTMLFormElement>("[data-build-form]");
    if (!form) return;
    putUnsaved(form, unsaved);
    unsaved = new Map();
  }

  /** A preview is a talk of its own, so the page is read anew for it. */
  function onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const chosen = target.closest<HTMLElement>("[data-tab-link]")?.dataset["tabLink"];
    if (!chosen || chosen === "preview" || tab === "preview") return;
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    void show(chosen);
  }

  root.addEventListener("click", onClick, { signal: listening.signal });
  const forget = watchForm(root, () => unsaved.size > 0);
  return () => {
    listening.abort();
    window.clearTimeout(timer);
    forget();
    link.close();
  };
};

export default builder;
