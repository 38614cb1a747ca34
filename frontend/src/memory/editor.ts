/**
 * The editor of one document: saves without leaving the page, shows what the text will look like.
 *
 * Somebody else's newer version is the server's to show: the form is sent as it is, and the answer
 * is the page that merges both.
 */
import { need, say } from "../lib/dom.ts";
import { Refused, restWith } from "../lib/rest.ts";
import { fetchPart } from "../lib/part.ts";
import { isCommand } from "../lib/keys.ts";
import { showProse } from "../lib/prose.ts";

const DRAW_MS = 120;
const VIEW_KEY = "memory-view";
const VIEWS = ["write", "split", "read"];

interface Saved {
  hash: string;
  path: string;
  version: number;
}

export function editor(form: HTMLFormElement): () => void {
  const text = need<HTMLTextAreaElement>(form, "[data-text]");
  const path = need<HTMLInputElement>(form, "[name=path]");
  const hash = need<HTMLInputElement>(form, "[name=expected_hash]");
  const said = need<HTMLElement>(form, "[data-said]");
  const save = need<HTMLButtonElement>(form, "[data-save]");
  const box = need<HTMLElement>(form, "[data-preview]");
  const panes = need<HTMLElement>(form, "[data-panes]");
  const rest = restWith(need<HTMLInputElement>(form, "[name=csrfmiddlewaretoken]").value);
  const most = Number(text.dataset["most"] ?? 0);
  let stored = { text: text.defaultValue, path: path.defaultValue };
  let saving = false;
  let leaving = false;
  let timer: number | undefined;

  const isDirty = (): boolean => text.value !== stored.text || path.value !== stored.path;

  function tell(): void {
    const bytes = new TextEncoder().encode(text.value).length;
    if (most && bytes > most) {
      say(said, `${bytes.toLocaleString()} of at most ${most.toLocaleString()} bytes`);
    } else say(said, isDirty() ? "Unsaved changes" : "");
  }
  function draw(): void {
    if (panes.dataset["panes"] !== "write") showProse(box, text.value);
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
    say(said, "Saving");
    try {
      const done = await rest.patch<Saved>(form.dataset["url"] ?? "", {
        content: sent.text,
        path: sent.path,
        expected_hash: hash.value,
      });
      hash.value = done.hash;
      stored = sent;
      // It is saved, whether the page around it can be renewed or not.
      await refresh(location.href).catch(() => undefined);
      say(said, isDirty() ? "Unsaved changes" : `Saved as version ${done.version}`);
    } catch (error) {
      if (error instanceof Refused && error.code === "memory_conflict") {
        leaving = true;
        HTMLFormElement.prototype.submit.call(form);
        return;
      }
      say(said, error instanceof Refused ? error.message : "Not saved: no connection. Try again.");
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

/** Brings the tree and the inspector in step with what was saved, without touching the editor. */
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
