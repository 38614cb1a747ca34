import type { Island } from "../lib/islands.ts";
import { isCommand } from "../lib/keys.ts";
import { latestQuery } from "../lib/latest-query.ts";

/**
 * The command palette: ⌘/Ctrl+K opens it, typing filters it, Enter follows the selection.
 *
 * The server renders the list of pages. Chats, agents and documents are searched once typing pauses
 * and listed last, so the current selection doesn't change.
 *
 * @example
 * <dialog data-island="palette"><input role="combobox">
 *   <div role="listbox"><a role="option" href="/">Home</a><div data-found="/palette/"></div></div>
 *   <p data-none hidden>Nothing found</p></dialog>
 */
export const palette: Island = (root) => {
  const box = root as HTMLDialogElement;
  const input = box.querySelector<HTMLInputElement>("[role=combobox]");
  const none = box.querySelector<HTMLElement>("[data-none]");
  const found = box.querySelector<HTMLElement>("[data-found]");
  if (!input || !none) throw new Error("palette needs a combobox and a [data-none].");
  let chosen: HTMLElement | undefined;

  const options = (): HTMLElement[] => [...box.querySelectorAll<HTMLElement>("[role=option]")];
  const shown = (): HTMLElement[] => options().filter((option) => !option.hidden);
  const query = latestQuery(
    async () => {
      const parameters = new URLSearchParams({ q: input.value });
      const answer = await fetch(`${found?.dataset["found"]}?${parameters}`, { credentials: "same-origin" });
      return answer.ok ? answer.text() : "";
    },
    (html) => {
      found?.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.children);
      showResults();
    },
  );

  function choose(option: HTMLElement | undefined): void {
    chosen?.setAttribute("aria-selected", "false");
    chosen = option;
    chosen?.setAttribute("aria-selected", "true");
    chosen?.scrollIntoView?.({ block: "nearest" });
    input?.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }

  function narrow(): void {
    const words = (input?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    for (const option of options()) {
      const text = (option.textContent ?? "").toLowerCase();
      option.hidden = !words.every((word) => text.includes(word));
    }
    choose(shown()[0]);
    if (chosen) none!.hidden = true;
    if (!found) return showResults();
    if (words.length) return query.soon();
    found.replaceChildren();
    showResults();
  }

  /** Show "no results" once all results are in. */
  function showResults(): void {
    none!.hidden = shown().length > 0;
    if (!chosen?.isConnected || chosen.hidden) choose(shown()[0]);
  }

  function open(): void {
    if (box.open) return box.close();
    input!.value = "";
    none!.hidden = true;
    narrow();
    box.showModal();
  }

  function onKey(event: KeyboardEvent): void {
    // An input method uses these keys first.
    if (event.isComposing) return;
    const rows = shown();
    const at = chosen ? rows.indexOf(chosen) : -1;
    if (event.key === "ArrowDown") choose(rows[(at + 1) % rows.length]);
    else if (event.key === "ArrowUp") choose(rows.at(at <= 0 ? -1 : at - 1));
    else if (event.key === "Enter") chosen?.click();
    else return;
    event.preventDefault();
  }

  const onCommand = (event: KeyboardEvent): void => {
    if (!isCommand(event, "k")) return;
    event.preventDefault();
    open();
  };
  const onClick = (event: MouseEvent): void => {
    const target = event.target as Element;
    if (target.closest("[data-palette]")) open();
    // An entry that stays on the page must not leave the palette open.
    else if (target === box || target.closest("[role=option]")) box.close();
  };

  input.addEventListener("input", narrow);
  input.addEventListener("keydown", onKey);
  document.addEventListener("keydown", onCommand);
  document.addEventListener("click", onClick);
  return () => {
    query.stop();
    input.removeEventListener("input", narrow);
    input.removeEventListener("keydown", onKey);
    document.removeEventListener("keydown", onCommand);
    document.removeEventListener("click", onClick);
  };
};
