/** The message box: grows with its text, keeps a draft and sends on Enter. */
import { requireElement, say } from "../lib/dom.ts";
import type { OnBusy } from "./types.ts";

interface ComposerOptions {
  form: HTMLFormElement;
  /** Stores the draft of this session. */
  typed: StoredText;
  onSend: (text: string, onBusy: OnBusy) => void;
  onStop: () => void;
  /** Called on Arrow Up in an empty composer. */
  onUp: () => void;
  /** Whether sending has to wait, for example for uploads. */
  mustWait?: () => boolean;
}

export interface Composer {
  /** Show the controls for a busy or an idle agent. */
  setBusy(busy: boolean): void;
  setLink(words: string): void;
  /** Insert text before what is typed. */
  addText(text: string): void;
  /** Update the controls after `mustWait` changed. */
  look(): void;
  focus(): void;
  close(): void;
}

export function composer(options: ComposerOptions): Composer {
  const { form, typed } = options;
  const area = requireElement<HTMLTextAreaElement>(form, "textarea");
  const whenBusy = requireElement<HTMLSelectElement>(form, "[data-on-busy]");
  const stop = requireElement<HTMLButtonElement>(form, "[data-stop]");
  const send = requireElement<HTMLButtonElement>(form, "[data-send]");
  const link = requireElement<HTMLElement>(form, "[data-link]");
  // On touch screens Enter starts a new line, as there is no Shift key at hand.
  const byTouch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  const growsAlone = typeof CSS !== "undefined" && CSS.supports?.("field-sizing", "content");
  let isBusy = false;

  if (!area.value) area.value = typed.read();
  changed();

  function changed(): void {
    if (!growsAlone) {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight}px`;
    }
    send.disabled = !area.value.trim() || (options.mustWait?.() ?? false);
    whenBusy.hidden = !isBusy || !area.value.trim();
    typed.write(area.value);
  }

  function submit(): void {
    const text = area.value;
    if (!text.trim() || options.mustWait?.()) return;
    options.onSend(text, isBusy ? (whenBusy.value as OnBusy) : "followup");
    area.value = "";
    whenBusy.value = "followup";
    changed();
    area.focus();
  }

  const onSubmit = (event: Event): void => {
    event.preventDefault();
    submit();
  };
  const onStop = (event: Event): void => {
    event.preventDefault();
    options.onStop();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey && !byTouch) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && !area.value) {
      event.preventDefault();
      options.onUp();
    }
  };

  form.addEventListener("submit", onSubmit);
  stop.addEventListener("click", onStop);
  area.addEventListener("keydown", onKey);
  area.addEventListener("input", changed);
  return {
    setBusy(busy) {
      isBusy = busy;
      stop.hidden = !busy;
      whenBusy.hidden = !busy || !area.value.trim();
    },
    setLink(words) {
      say(link, words);
      link.hidden = !words;
    },
    addText(text) {
      area.value = area.value.trim() ? `${text}\n\n${area.value}` : text;
      changed();
      area.focus();
    },
    look: changed,
    focus: () => area.focus(),
    close() {
      form.removeEventListener("submit", onSubmit);
      stop.removeEventListener("click", onStop);
      area.removeEventListener("keydown", onKey);
      area.removeEventListener("input", changed);
    },
  };
}

// --- Drafts stored in this browser

export interface StoredText {
  read(): string;
  write(text: string): void;
}

/** Store text under a name. If storage is full or blocked, the text is just not kept. */
export function storedText(store: Storage, name: string): StoredText {
  return {
    read: () => store.getItem(name) ?? "",
    write: (text) => {
      try {
        if (text) store.setItem(name, text);
        else store.removeItem(name);
      } catch {
        // Storage is full or blocked.
      }
    },
  };
}

export const draftKey = (sessionId: string): string => `chat-draft:${sessionId}`;
/** Key for the page that starts a chat and has no session yet. */
const FIRST = "chat-draft:new";

export const newChatText = (store: Storage): StoredText => storedText(store, FIRST);

/** Clear the stored first message once its session has it. */
export function clearNewChatText(store: Storage, sent: string): void {
  const first = newChatText(store);
  if (first.read().trim() === sent.replaceAll("\r\n", "\n").trim()) first.write("");
}
