import { requireElement, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { reached } from "../lib/rest.ts";

const KEY = "workspace";

/**
 * Block a page whose workspace was switched in another tab, because the server acts in the newer
 * one.
 *
 * Continuing here switches back, which blocks the other tabs in turn. Typed text stays.
 *
 * @example
 * <dialog data-island="workspace-guard" data-workspace="ID" data-name="Acme"><form>…</form></dialog>
 */
export const workspaceGuard: Island = (root) => {
  const sheet = root as HTMLDialogElement;
  const mine = JSON.stringify([root.dataset["workspace"], root.dataset["name"]]);
  const form = requireElement<HTMLFormElement>(root, "form");
  const wrong = requireElement<HTMLElement>(root, "[data-wrong]");
  const listening = new AbortController();
  const { signal } = listening;

  function check(): void {
    const [id, name] = JSON.parse(localStorage.getItem(KEY) ?? mine) as [string, string];
    if (id === root.dataset["workspace"]) return sheet.close();
    for (const node of root.querySelectorAll("[data-other]")) say(node, name);
    if (!sheet.open) sheet.showModal();
  }

  async function switchBack(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    wrong.hidden = true;
    try {
      const answer = await reached(fetch(form.action, { method: "POST", body: new FormData(form) }));
      if (!answer.ok) throw new Error(`Couldn't switch workspaces (error ${answer.status}). Reload the page.`);
      localStorage.setItem(KEY, mine);
      check();
    } catch (fault) {
      say(wrong, (fault as Error).message);
      wrong.hidden = false;
    }
  }

  localStorage.setItem(KEY, mine);
  window.addEventListener("storage", (event) => event.key === KEY && check(), { signal });
  // A page restored from history may be older.
  window.addEventListener("pageshow", (event) => event.persisted && check(), { signal });
  sheet.addEventListener("cancel", (event) => event.preventDefault(), { signal });
  form.addEventListener("submit", (event) => void switchBack(event), { signal });
  return () => listening.abort();
};
