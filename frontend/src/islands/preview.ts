import type { Island } from "../lib/islands.ts";
import { latestQuery } from "../lib/latest-query.ts";
import { fetchPart } from "../lib/pages.ts";

/**
 * Show the server's preview of the current form. Without JavaScript its preview button does it.
 *
 * @example
 * <form data-island="preview" data-url="/schedules/preview/"><select name="timezone" data-own-zone>…</select>
 *   <div data-preview aria-live="polite"></div><button name="preview" data-fallback>Preview</button></form>
 */
export const preview: Island = (root) => {
  const form = root as HTMLFormElement;
  const shown = form.querySelector<HTMLElement>("[data-preview]");
  if (!shown) throw new Error("preview needs a [data-preview] to show in.");
  const fallback = form.querySelector<HTMLElement>("[data-fallback]");
  const query = latestQuery(
    () => read(form),
    (page) => {
      // Rendered and escaped by the server.
      shown.replaceChildren(...page.body.childNodes);
      shown.dispatchEvent(new Event("times-shown", { bubbles: true }));
    },
  );

  if (fallback) fallback.hidden = true;
  chooseOwnZone(form);
  form.addEventListener("input", query.soon);
  query.soon();
  return () => {
    query.stop();
    form.removeEventListener("input", query.soon);
  };
};

/** Fetch the preview. */
function read(form: HTMLFormElement): Promise<Document> {
  const parameters = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value === "string" && name !== "csrfmiddlewaretoken") parameters.append(name, value);
  }
  return fetchPart(`${form.dataset["url"]}?${parameters}`);
}

/** A new form starts with the viewer's time zone. */
function chooseOwnZone(form: HTMLFormElement): void {
  const choice = form.querySelector<HTMLSelectElement>("select[data-own-zone]");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (choice && [...choice.options].some((option) => option.value === zone)) choice.value = zone;
}
