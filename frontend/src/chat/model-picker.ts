/** The picker of a chat's model: search, filter by provider, arrow keys, and a choice without a reload. */
import { requireElement } from "../lib/dom.ts";
import { fetchHtml, openPanel, type Panel, parseHtml } from "../lib/panel.ts";

/** What a person chose, and the name to show. Provider and model are empty for the agent's own. */
export interface ModelChoice {
  provider: string;
  model: string;
  name: string;
}

/**
 * Open the picker. `choose` stores the choice and returns the name to show.
 *
 * @example
 * <form data-models><input data-search><select data-provider></select>
 *   <div data-rows><section data-provider-rows="openai"><button value="openai/gpt-4o" data-name="gpt-4o">…</button></section></div>
 *   <p data-none hidden></p></form>
 */
export async function openModelPicker(
  url: string,
  choose: (choice: ModelChoice) => Promise<void>,
): Promise<Panel> {
  const panel = await openPanel(url, "Model");
  attach(panel.body, url, async (choice) => {
    await choose(choice);
    panel.close();
  });
  return panel;
}

/** Make the list of a picker searchable, and its rows choose. */
export function attach(body: HTMLElement, url: string, choose: (choice: ModelChoice) => Promise<void>): void {
  const form = requireElement<HTMLFormElement>(body, "[data-models]");
  const search = requireElement<HTMLInputElement>(form, "[data-search]");
  const provider = requireElement<HTMLSelectElement>(form, "[data-provider]");
  const none = requireElement<HTMLElement>(form, "[data-none]");

  const rows = (): HTMLButtonElement[] => [...form.querySelectorAll<HTMLButtonElement>("button[name=model]")];

  function update(): void {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows()) {
      const text = (row.textContent ?? "").toLowerCase();
      row.closest<HTMLElement>("li")!.hidden = !words.every((word) => text.includes(word));
    }
    for (const section of form.querySelectorAll<HTMLElement>("[data-provider-rows]")) {
      const isOther = provider.value !== "" && section.dataset["providerRows"] !== provider.value;
      const isEmpty = words.length > 0 && section.querySelector("li:not([hidden])") === null;
      section.hidden = isOther || isEmpty;
    }
    none.hidden = shown().length > 0;
  }

  const shown = (): HTMLButtonElement[] => rows().filter((row) => !row.closest("li[hidden], section[hidden]"));

  async function submit(button: HTMLButtonElement): Promise<void> {
    if (button.name === "refresh") {
      button.disabled = true;
      const html = await fetchHtml(`${url}?panel=1`, { method: "POST", body: new FormData(form, button) });
      const { value } = search;
      body.replaceChildren(...parseHtml(html));
      attach(body, url, choose);
      const field = requireElement<HTMLInputElement>(body, "[data-search]");
      field.value = value;
      field.dispatchEvent(new Event("input"));
      return;
    }
    const at = button.value.indexOf("/");
    await choose({
      provider: button.value.slice(0, at),
      model: button.value.slice(at + 1),
      name: button.dataset["name"] ?? "",
    });
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter as HTMLButtonElement | null;
    if (!button) return;
    submit(button).catch((fault: unknown) => {
      none.textContent = (fault as Error).message;
      none.hidden = false;
      button.disabled = false;
    });
  });
  form.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const all = shown();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Enter" && event.target === search) {
      event.preventDefault();
      if (all.length === 1) all[0]!.click();
      else all[0]?.focus();
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step || event.target === provider) return;
    event.preventDefault();
    const next = all[at + step];
    if (next) next.focus();
    else if (step < 0) search.focus();
  });
  search.addEventListener("input", update);
  provider.addEventListener("change", update);
  update();
  search.focus();
}
