import { need, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { reached } from "../lib/rest.ts";

const KEY = "workspace";

/**
 * Stands in the way of a page whose workspace another tab has left: the server acts in the newer one.
 *
 * Every page says which workspace it was written for, as the server's newest word. Whoever goes on
 * here switches back, and the other tabs stand still in turn. What was typed stays where it is.
 *
 * @example
 * <dialog data-island="elsewhere" data-workspace="ID" data-name="Acme"><form>…</form></dialog>
 */
export const elsewhere: Island = (root) => {
  const sheet = root as HTMLDialogElement;
  const mine = JSON.stringify([root.dataset["workspace"], root.dataset["name"]]);
  const form = need<HTMLFormElement>(root, "form");
  const wrong = need<HTMLElement>(root, "[data-wrong]");
  const listening = new AbortController();
  const { signal } = listening;

  function look(): void {
    const [id, name] = JSON.parse(localStorage.getItem(KEY) ?? mine) as [string, string];
    if (id === root.dataset["workspace"]) return sheet.close();
    for (const node of root.querySelectorAll("[data-other]")) say(node, name);
    if (!sheet.open) sheet.showModal();
  }

  async function goOn(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    wrong.hidden = true;
    try {
      const answer = await reached(fetch(form.action, { method: "POST", body: new FormData(form) }));
      if (!answer.ok) throw new Error(`It did not work: the server answered ${answer.status}. Reload the page.`);
      localStorage.setItem(KEY, mine);
      look();
    } catch (fault) {
      say(wrong, (fault as Error).message);
      wrong.hidden = false;
    }
  }

  localStorage.setItem(KEY, mine);
  window.addEventListener("storage", (event) => event.key === KEY && look(), { signal });
  // A page that comes back from the browser's history was written earlier.
  window.addEventListener("pageshow", (event) => event.persisted && look(), { signal });
  sheet.addEventListener("cancel", (event) => event.preventDefault(), { signal });
  form.addEventListener("submit", (event) => void goOn(event), { signal });
  return () => listening.abort();
};
