/** Shows a part of another page in a dialog. The page itself stays for browsers without scripts. */
import { button, h } from "./dom.ts";
import { type Island, mountIslands } from "./islands.ts";

export interface Panel {
  box: HTMLDialogElement;
  body: HTMLElement;
  close(): void;
}

/** Fetch HTML, or throw if the server refuses. */
export async function fetchHtml(url: string, init: RequestInit = {}): Promise<string> {
  const answer = await fetch(url, { credentials: "same-origin", ...init });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}.`);
  return answer.text();
}

export function parseHtml(html: string): Element[] {
  return [...new DOMParser().parseFromString(html, "text/html").body.children];
}

/** Open a dialog with the HTML that `url` returns for `?panel=1`. */
export async function openPanel(
  url: string,
  title: string,
  islands: Record<string, Island> = {},
): Promise<Panel> {
  const body = h("div", { class: "sheet-body" });
  body.append(...parseHtml(await fetchHtml(`${url}?panel=1`)));
  const box = h(
    "dialog",
    { class: "sheet", "aria-labelledby": "panel-title" },
    h(
      "div",
      { class: "sheet-head" },
      h("h2", { id: "panel-title", text: title }),
      button("Close", () => box.close(), { class: "btn btn-bare btn-sm" }),
    ),
    body,
  );
  document.body.append(box);
  const cleanUp = mountIslands(body, islands);
  box.addEventListener("mousedown", (event) => {
    if (event.target === box) box.close();
  });
  box.addEventListener("close", () => {
    cleanUp();
    box.remove();
  });
  box.showModal();
  return { box, body, close: () => box.close() };
}
