/** The list beside a chat: search as one types, days of the viewer, arrow keys, and chat options. */
import { copy } from "../islands/copy.ts";
import { button, h, say } from "../lib/dom.ts";
import { type Island, mountIslands } from "../lib/islands.ts";
import { latestQuery } from "../lib/latest-query.ts";

const DAY_MS = 86_400_000;
const GROUPS = ["Today", "Yesterday", "Older"];

const chatList: Island = (root) => {
  const input = root.querySelector<HTMLInputElement>("[data-search]")!;
  const rows = root.querySelector<HTMLElement>("[data-rows]")!;
  const found = root.querySelector<HTMLElement>("[data-found]")!;

  const query = latestQuery(
    () => fetchHtml(`${root.dataset["url"]}?${new URLSearchParams({ q: input.value })}`),
    (html) => {
      rows.replaceChildren(...parse(html));
      markCurrent();
      regroup(rows, new Date());
      const count = links().length;
      say(found, count === 1 ? "1 chat" : `${count} chats`);
    },
    150,
  );

  const links = (): HTMLElement[] => [...rows.querySelectorAll<HTMLElement>("li > a:first-child")];

  function markCurrent(): void {
    const current = root.dataset["current"];
    if (!current) return;
    rows.querySelector(`a[href$="/${current}/"]`)?.setAttribute("aria-current", "page");
  }

  function onKey(event: KeyboardEvent): void {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      // Escape belongs to the list here; it must not stop the answer.
      event.preventDefault();
      if (input.value) {
        input.value = "";
        void query.now();
      }
      (document.activeElement as HTMLElement | null)?.blur();
      return;
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    const all: HTMLElement[] = [input, ...links()];
    const row = (event.target as HTMLElement).closest("li")?.querySelector<HTMLElement>("a");
    const next = all[all.indexOf(row ?? input) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  function onClick(event: MouseEvent): void {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.defaultPrevented) return;
    const link = (event.target as HTMLElement).closest<HTMLAnchorElement>("a[data-chat-options]");
    if (!link) return;
    event.preventDefault();
    openOptions(link.href).catch(() => location.assign(link.href));
  }

  const onInput = (): void => query.soon();
  regroup(rows, new Date());
  rows.querySelector("[aria-current]")?.scrollIntoView?.({ block: "nearest" });
  input.addEventListener("input", onInput);
  root.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  return () => {
    query.stop();
    input.removeEventListener("input", onInput);
    root.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick);
  };
};

export default chatList;

async function fetchHtml(url: string): Promise<string> {
  const answer = await fetch(url, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}.`);
  return answer.text();
}

function parse(html: string): Element[] {
  return [...new DOMParser().parseFromString(html, "text/html").body.children];
}

/** Show a chat's options in a dialog instead of on their page. */
async function openOptions(href: string): Promise<void> {
  const body = h("div", { class: "sheet-body" });
  body.append(...parse(await fetchHtml(`${href}?panel=1`)));
  const box = h(
    "dialog",
    { class: "sheet", "aria-labelledby": "chat-options-title" },
    h(
      "div",
      { class: "sheet-head" },
      h("h2", { id: "chat-options-title", text: "Chat options" }),
      button("Close", () => box.close(), { class: "btn btn-bare btn-sm" }),
    ),
    body,
  );
  document.body.append(box);
  const cleanUp = mountIslands(body, { copy });
  box.addEventListener("mousedown", (event) => {
    if (event.target === box) box.close();
  });
  box.addEventListener("close", () => {
    cleanUp();
    box.remove();
  });
  box.showModal();
  body.querySelector<HTMLInputElement>("input[name=title]")?.select();
}

/** Move rows between the groups of days, as the server does not know the viewer's time zone. */
export function regroup(rows: HTMLElement, now: Date): void {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const all = [...rows.querySelectorAll<HTMLElement>("section:not([data-group=Pinned]) li")];
  const wanted = new Map<string, HTMLElement[]>(GROUPS.map((label) => [label, []]));
  for (const row of all) {
    const at = new Date(row.dataset["at"] ?? "").getTime();
    // Noon of yesterday is within it even where the clocks change.
    const isYesterday = at >= startOfDay(midnight - DAY_MS / 2);
    wanted.get(at >= midnight ? "Today" : isYesterday ? "Yesterday" : "Older")!.push(row);
  }
  for (const section of rows.querySelectorAll("section:not([data-group=Pinned])")) section.remove();
  for (const [label, group] of wanted) {
    if (!group.length) continue;
    rows.append(
      h("section", { "data-group": label }, h("h2", { text: label }), h("ul", {}, ...group)),
    );
  }
}

function startOfDay(moment: number): number {
  const day = new Date(moment);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
}
