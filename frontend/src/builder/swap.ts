/** Puts the server's newer parts in place of the page's, and leaves what a person types alone. */
import { mergeForm } from "./form.ts";

export interface Parts {
  revision: number;
  /** By the name in `data-live`. */
  regions: Map<string, HTMLElement>;
}

/** What the server wrote: our own template, so its elements are taken as they are. */
export function partsIn(page: Document): Parts {
  const regions = new Map<string, HTMLElement>();
  for (const one of page.querySelectorAll<HTMLElement>("[data-live]")) {
    regions.set(one.dataset["live"] ?? "", one);
  }
  const told = page.querySelector<HTMLDataElement>("[data-build-revision]");
  return { revision: Number(told?.getAttribute("value") ?? 0), regions };
}

export function swap(parts: Parts, { keepForm }: { keepForm: boolean }): void {
  for (const one of document.querySelectorAll<HTMLElement>("[data-live]")) {
    const newer = parts.regions.get(one.dataset["live"] ?? "");
    if (!newer) continue;
    const form = one.querySelector<HTMLFormElement>("[data-build-form]");
    const next = newer.querySelector<HTMLFormElement>("[data-build-form]");
    if (keepForm && form && next) mergeForm(form, next);
    else {
      one.replaceChildren(...[...newer.childNodes].map((node) => document.adoptNode(node)));
      one.dispatchEvent(new Event("times-shown", { bubbles: true }));
    }
  }
}
