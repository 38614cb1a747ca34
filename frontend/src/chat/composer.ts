/** Where one writes: grows with the text, keeps it until it is sent, sends on Enter. */
import { need, say } from "../lib/dom.ts";
import type { OnBusy } from "./messages.ts";
import type { Typed } from "./typed.ts";

interface ComposerOptions {
  form: HTMLFormElement;
  /** Where the draft of this session is kept. */
  typed: Typed;
  onSend: (text: string, onBusy: OnBusy) => void;
  onStop: () => void;
  /** The arrow up in an empty composer. */
  onUp: () => void;
  /** Something else must be done before it can be sent. */
  mustWait?: () => boolean;
}

export interface Composer {
  /** Show what can be done while the agent works, or while it does not. */
  setBusy(busy: boolean): void;
  setLink(words: string): void;
  /** Put a text before what is typed. */
  addText(text: string): void;
  /** What it has to wait for has changed. */
  look(): void;
  focus(): void;
  close(): void;
}

export function composer(options: ComposerOptions): Composer {
  const { form, typed } = options;
  const area = need<HTMLTextAreaElement>(form, "textarea");
  const manner = need<HTMLSelectElement>(form, "[data-manner]");
  const stop = need<HTMLButtonElement>(form, "[data-stop]");
  const send = need<HTMLButtonElement>(form, "[data-send]");
  const link = need<HTMLElement>(form, "[data-link]");
  // A finger has no Shift key at hand, so there Enter begins a line.
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
    manner.hidden = !isBusy || !area.value.trim();
    typed.write(area.value);
  }

  function submit(): void {
    const text = area.value;
    if (!text.trim() || options.mustWait?.()) return;
    options.onSend(text, isBusy ? (manner.value as OnBusy) : "followup");
    area.value = "";
    manner.value = "followup";
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
      manner.hidden = !busy || !area.value.trim();
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
