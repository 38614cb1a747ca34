/** The list beside a chat: search as one types, days of the viewer, arrow keys, and chat options. */
import { copy } from "../islands/copy.ts";
import { h, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { latestQuery } from "../lib/latest-query.ts";
import { fetchHtml, openPanel, parseHtml } from "../lib/panel.ts";

const DAY_MS = 86_400_000;
/** Where this browser keeps which folders are open. */
const FOLDERS = "chat-folders";
const GROUPS = ["Today", "Yesterday", "Older"];

const chatList: Island = (root) => {
  const input = root.querySelector<HTMLInputElement>("[data-search]")!;
  const rows = root.querySelector<HTMLElement>("[data-rows]")!;
  const found = root.querySelector<HTMLElement>("[data-found]")!;

  const query = latestQuery(
    () => fetchHtml(`${root.dataset["url"]}?${new URLSearchParams({ q: input.value })}`),
    (html) => {
      rows.replaceChildren(...parseHtml(html));
      markCurrent();
      regroup(rows, new Date());
      openFolders();
      count();
      const number = links().length;
      say(found, number === 1 ? "1 chat" : `${number} chats`);
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
      if (root.hasAttribute("data-open")) {
        openDrawer(false);
        drawerButton?.focus();
      }
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

  const bulk = root.querySelector<HTMLFormElement>("[data-bulk]");
  const selectButton = root.querySelector<HTMLElement>("[data-select]");

  /** Show or hide the checkboxes and what can be done with the selected chats. */
  function select(on: boolean): void {
    root.classList.toggle("is-selecting", on);
    selectButton?.setAttribute("aria-pressed", String(on));
    if (bulk) bulk.hidden = !on;
    if (!on) for (const box of boxes()) box.checked = false;
    count();
  }

  const boxes = (): HTMLInputElement[] => [...rows.querySelectorAll<HTMLInputElement>("[name=chat]")];

  function count(): void {
    const chosen = boxes().filter((box) => box.checked).length;
    if (!bulk) return;
    say(bulk.querySelector("[data-chosen]")!, chosen ? `${chosen} selected` : "None selected");
    for (const one of bulk.querySelectorAll<HTMLButtonElement>("button")) one.disabled = chosen === 0;
  }

  /** Keep folders as the person left them. The one with the open chat is always open. */
  function openFolders(): void {
    const open = new Set(JSON.parse(localStorage.getItem(FOLDERS) ?? "[]") as string[]);
    for (const folder of rows.querySelectorAll<HTMLDetailsElement>("[data-folder]")) {
      folder.open ||= open.has(folder.dataset["group"] ?? "") || folder.querySelector("[aria-current]") !== null;
      folder.addEventListener("toggle", () => {
        if (folder.open) open.add(folder.dataset["group"] ?? "");
        else open.delete(folder.dataset["group"] ?? "");
        localStorage.setItem(FOLDERS, JSON.stringify([...open]));
      });
    }
  }

  /** On a narrow screen the list is a drawer. */
  const drawerButton = document.querySelector<HTMLElement>("[data-chats]");
  function openDrawer(on: boolean): void {
    root.toggleAttribute("data-open", on);
    drawerButton?.setAttribute("aria-expanded", String(on));
    if (on) input.focus();
  }
  const onDrawer = (): void => openDrawer(!root.hasAttribute("data-open"));
  const onOutside = (event: Event): void => {
    const target = event.target as HTMLElement;
    if (!root.contains(target) && !drawerButton?.contains(target) && !target.closest("dialog")) openDrawer(false);
  };

  const onSelect = (): void => select(!root.classList.contains("is-selecting"));
  const onInput = (): void => query.soon();
  regroup(rows, new Date());
  openFolders();
  rows.querySelector("[aria-current]")?.scrollIntoView?.({ block: "nearest" });
  input.addEventListener("input", onInput);
  root.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  selectButton?.addEventListener("click", onSelect);
  drawerButton?.addEventListener("click", onDrawer);
  document.addEventListener("pointerdown", onOutside);
  rows.addEventListener("change", count);
  return () => {
    query.stop();
    input.removeEventListener("input", onInput);
    root.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick);
    selectButton?.removeEventListener("click", onSelect);
    drawerButton?.removeEventListener("click", onDrawer);
    document.removeEventListener("pointerdown", onOutside);
    rows.removeEventListener("change", count);
  };
};

export default chatList;

/** Show a chat's options in a dialog instead of on their page. */
async function openOptions(href: string): Promise<void> {
  const { body } = await openPanel(href, "Chat options", { copy });
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
