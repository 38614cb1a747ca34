import { need, say } from "../lib/dom.ts";
import { isCommand } from "../lib/keys.ts";

const MARK = /^(?:<<<<<<< mine|=======|>>>>>>> theirs)$/m;

/** The page that brings two changes together: takes a whole text, and sees marks that were left. */
export function merge(root: HTMLElement, form: HTMLFormElement): () => void {
  const text = need<HTMLTextAreaElement>(form, "[data-text]");
  const said = need<HTMLElement>(form, "[data-said]");

  function tell(): void {
    say(said, MARK.test(text.value) ? "Lines to choose from are still marked" : "");
  }
  const onClick = (event: Event): void => {
    const button = (event.target as Element).closest<HTMLElement>("[data-take]");
    const source = button && document.getElementById(button.dataset["take"] ?? "");
    if (!(source instanceof HTMLTextAreaElement)) return;
    text.value = source.value;
    tell();
    text.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!isCommand(event, "s")) return;
    event.preventDefault();
    form.requestSubmit();
  };

  tell();
  root.addEventListener("click", onClick);
  text.addEventListener("input", tell);
  document.addEventListener("keydown", onKey);
  return () => {
    root.removeEventListener("click", onClick);
    text.removeEventListener("input", tell);
    document.removeEventListener("keydown", onKey);
  };
}
