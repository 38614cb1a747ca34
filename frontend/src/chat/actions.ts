/** Handles the buttons and forms of server-rendered lines by their `data-action`. */
import { copyText, say } from "../lib/dom.ts";

/** Handle an action of a button in a line. Rejects with a message for people. */
export type Action = (button: HTMLElement, line: HTMLElement) => Promise<unknown> | void;

interface ActionOptions {
  actions: Record<string, Action>;
  /** Shows a message where the line has no place for it. An empty one hides the last. */
  complain: (message: string) => void;
  signal: AbortSignal;
}

/**
 * Listen for actions under an element.
 *
 * @example
 * <li data-key="…"><button data-action="copy">…</button><form data-action="retry">…</form>
 *   <p data-action-error hidden></p></li>
 */
export function listenForActions(root: HTMLElement, options: ActionOptions): void {
  const { actions, signal } = options;

  function onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const code = target.closest<HTMLElement>("[data-copy-code]");
    if (code) void copyText(code.closest(".code-box")?.querySelector("pre")?.textContent ?? "", code);
    const button = target.closest<HTMLElement>("[data-action]:not(form)");
    const action = button && actions[button.dataset["action"] ?? ""];
    if (!button || !action || !root.contains(button)) return;
    event.preventDefault();
    void run(button, action);
  }

  function onSubmit(event: SubmitEvent): void {
    const form = event.target as HTMLFormElement;
    const action = actions[form.dataset["action"] ?? ""];
    if (!action) return;
    event.preventDefault();
    void run(event.submitter ?? form, action);
  }

  async function run(button: HTMLElement, action: Action): Promise<void> {
    const line = button.closest<HTMLElement>("[data-key]") ?? root;
    const group = [...(button.parentElement?.querySelectorAll("button") ?? [])];
    const done = action(button, line);
    if (!done) return;
    complain(line, "");
    for (const one of group) one.disabled = true;
    try {
      await done;
    } catch (fault) {
      complain(line, (fault as Error).message);
    } finally {
      for (const one of group) one.disabled = false;
    }
  }

  function complain(line: HTMLElement, message: string): void {
    const place = line.querySelector<HTMLElement>("[data-action-error]");
    if (!place) {
      options.complain(message);
      return;
    }
    say(place, message);
    place.hidden = !message;
  }

  root.addEventListener("click", onClick, { signal });
  root.addEventListener("submit", onSubmit, { signal });
}
