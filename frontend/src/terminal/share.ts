/** Makes a link for people who may watch, and takes it back. */
import { clock } from "../lib/dom.ts";
import { Refused, type Rest } from "../lib/rest.ts";

interface Shared {
  url: string;
  expires_at: string;
}

/**
 * @example
 * <dialog data-share><form><select name="minutes">…</select><button>Make a link</button></form>
 *   <div data-shared hidden><code data-link></code><p data-until></p><button data-unshare></button></div>
 *   <p data-share-problem hidden></p></dialog>
 */
export function sharing(dialog: HTMLElement, rest: Rest, path: string): void {
  const form = dialog.querySelector<HTMLFormElement>("form[data-share-form]");
  const result = dialog.querySelector<HTMLElement>("[data-shared]");
  const link = dialog.querySelector<HTMLElement>("[data-link]");
  const until = dialog.querySelector<HTMLElement>("[data-until]");
  const problem = dialog.querySelector<HTMLElement>("[data-share-problem]");
  if (!form || !result || !link || !until || !problem) throw new Error("The share sheet lacks a part.");

  async function attempt(work: () => Promise<void>): Promise<void> {
    problem!.hidden = true;
    try {
      await work();
    } catch (fault) {
      problem!.textContent = fault instanceof Refused ? fault.message : "The server is out of reach.";
      problem!.hidden = false;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const minutes = Number(new FormData(form).get("minutes"));
    void attempt(async () => {
      const shared = await rest.post<Shared>(`${path}share/`, { minutes });
      link.textContent = shared.url;
      until.textContent = `Works until ${clock(new Date(shared.expires_at))}. An older link has stopped working.`;
      result.hidden = false;
    });
  });
  dialog.querySelector("[data-unshare]")?.addEventListener("click", () => {
    void attempt(async () => {
      await rest.remove(`${path}share/`);
      link.textContent = "";
      result.hidden = true;
    });
  });
}
