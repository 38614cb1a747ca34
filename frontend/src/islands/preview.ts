import type { Island } from "../lib/islands.ts";

const ASK_MS = 250;

/**
 * Shows what the server makes of a form as it stands. Without a script its preview button does it.
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
  let timer: number | undefined;
  let asked = 0;

  function later(): void {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void ask(), ASK_MS);
  }

  /** Only the answer to the newest question is shown. */
  async function ask(): Promise<void> {
    asked += 1;
    const mine = asked;
    const facts = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string" && name !== "csrfmiddlewaretoken") facts.append(name, value);
    }
    try {
      const answer = await fetch(`${form.dataset["url"]}?${facts}`, { credentials: "same-origin" });
      if (mine !== asked || !answer.ok) return;
      // The server's own page, escaped by its templates.
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      shown!.replaceChildren(...page.body.childNodes);
      shown!.dispatchEvent(new Event("times-shown", { bubbles: true }));
    } catch {
      // The page goes on without: saving asks the server again.
    }
  }

  if (fallback) fallback.hidden = true;
  chooseOwnZone(form);
  form.addEventListener("input", later);
  later();
  return () => {
    window.clearTimeout(timer);
    form.removeEventListener("input", later);
  };
};

/** A new form begins with the viewer's time zone. */
function chooseOwnZone(form: HTMLFormElement): void {
  const choice = form.querySelector<HTMLSelectElement>("select[data-own-zone]");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (choice && [...choice.options].some((option) => option.value === zone)) choice.value = zone;
}
