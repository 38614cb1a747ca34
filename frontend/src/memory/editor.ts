/**
 * The document editor: saves in place and previews the Markdown.
 *
 * On a conflict the form is submitted as it is, and the server responds with the merge page.
 */
import { requireElement, say } from "../lib/dom.ts";
import { isCommand } from "../lib/keys.ts";
import { renderMarkdown } from "../lib/markdown.ts";
import { fetchPart } from "../lib/pages.ts";
import { Refused, restWith } from "../lib/rest.ts";

const DRAW_MS = 120;
const VIEW_KEY = "memory-view";
const VIEWS = ["write", "split", "read"];

interface Saved {
  hash: string;
  path: string;
  version: number;
}

export function editor(form: HTMLFormElement): () => void {
  const text = requireElement<HTMLTextAreaElement>(form, "[data-text]");
  const path = requireElement<HTMLInputElement>(form, "[name=path]");
  const hash = requireElement<HTMLInputElement>(form, "[name=expected_hash]");
  const status = requireElement<HTMLElement>(form, "[data-status]");
  const save = requireElement<HTMLButtonElement>(form, "[data-save]");
  const box = requireElement<HTMLElement>(form, "[data-preview]");
  const panes = requireElement<HTMLElement>(form, "[data-panes]");
  const rest = restWith(requireElement<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value);
  const most = Number(text.dataset["most"] ?? 0);
  let stored = { text: text.defaultValue, path: path.defaultValue };
  let saving = false;
  let leaving = false;
  let timer: number | undefined;

  const isDirty = (): boolean => text.value !== stored.text || path.value !== stored.path;

  function tell(): void {
    const bytes = new TextEncoder().encode(text.value).length;
    if (most && bytes > most) {
      say(status, `Too long: ${bytes.toLocaleString()} of ${most.toLocaleString()} bytes`);
    } else say(status, isDirty() ? "Unsaved changes" : "");
  }
  function draw(): void {
    if (panes.dataset["panes"] !== "write") renderMarkdown(box, text.value);
  }
  function onInput(): void {
    tell();
    window.clearTimeout(timer);
    timer = window.setTimeout(draw, DRAW_MS);
  }

  function show(view: string): void {
    panes.dataset["panes"] = view;
    for (const button of form.querySelectorAll<HTMLElement>("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset["view"] === view));
    }
    draw();
  }
  function onView(event: Event): void {
    const view = (event.target as Element).closest<HTMLElement>("[data-view]")?.dataset["view"];
    if (!view) return;
    localStorage.setItem(VIEW_KEY, view);
    show(view);
    if (view !== "read") text.focus();
  }

  async function send(): Promise<void> {
    if (saving) return;
    saving = true;
    save.disabled = true;
    const sent = { text: text.value, path: path.value };
    say(status, "Saving…");
    try {
      const done = await rest.patch<Saved>(form.dataset["url"] ?? "", {
        content: sent.text,
        path: sent.path,
        expected_hash: hash.value,
      });
      hash.value = done.hash;
      stored = sent;
      // The document is saved even if refreshing the page fails.
      await refresh(location.href).catch(() => undefined);
      say(status, isDirty() ? "Unsaved changes" : `Saved as version ${done.version}`);
    } catch (error) {
      if (error instanceof Refused && error.code === "memory_conflict") {
        leaving = true;
        HTMLFormElement.prototype.submit.call(form);
        return;
      }
      say(status, error instanceof Refused ? error.message : "Couldn't save. Check your connection and try again.");
    } finally {
      saving = false;
      save.disabled = false;
    }
  }

  const onSubmit = (event: Event): void => {
    event.preventDefault();
    void send();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!isCommand(event, "s")) return;
    event.preventDefault();
    form.requestSubmit();
  };
  const onLeave = (event: BeforeUnloadEvent): void => {
    if (!leaving && isDirty()) event.preventDefault();
  };

  const before = localStorage.getItem(VIEW_KEY) ?? "";
  show(VIEWS.includes(before) ? before : window.innerWidth > 1300 ? "split" : "write");
  form.addEventListener("input", onInput);
  form.addEventListener("submit", onSubmit);
  form.addEventListener("click", onView);
  document.addEventListener("keydown", onKey);
  window.addEventListener("beforeunload", onLeave);
  return () => {
    window.clearTimeout(timer);
    form.removeEventListener("input", onInput);
    form.removeEventListener("submit", onSubmit);
    form.removeEventListener("click", onView);
    document.removeEventListener("keydown", onKey);
    window.removeEventListener("beforeunload", onLeave);
  };
}

/** Refresh the tree and the inspector without touching the editor. */
async function refresh(url: string): Promise<void> {
  const fresh = await fetchPart(url);
  for (const selector of ["#inspector", "[data-tree]"]) {
    const from = fresh.querySelector(selector);
    const to = document.querySelector(selector);
    if (!from || !to) continue;
    to.replaceChildren(...from.childNodes);
    to.dispatchEvent(new Event("times-shown", { bubbles: true }));
  }
}
