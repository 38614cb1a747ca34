/** Entry of a workflow's page: keeps it up to date. */
import type { Island } from "../lib/islands.ts";
import { isCommand, clickInCard } from "../lib/keys.ts";
import { refresher } from "../lib/pages.ts";
import { connect } from "../lib/socket.ts";

/**
 * Fetch the body again at every frame of the workflow. The approval shortcuts work here too.
 *
 * @example
 * <div data-island="workflow" data-socket="/ws/workflows/1/"><div data-body data-seq="4">…</div></div>
 */
const workflow: Island = (root) => {
  const { socket } = root.dataset;
  const first = root.querySelector<HTMLElement>("[data-body]");
  if (!socket || !first) throw new Error("workflow needs data-socket and a [data-body].");
  const lost = root.querySelector<HTMLElement>("[data-lost]");
  const live = root.querySelector<HTMLElement>("[data-announce]");
  let cursor = Number(first.dataset["seq"] ?? 0);

  const refreshing = refresher(
    () => `${location.pathname}?part=body`,
    (page) => {
      const body = replaceBody(root, page);
      root.dispatchEvent(new Event("times-shown", { bubbles: true }));
      if (live && body) announce(live, body.dataset["status"] ?? "");
    },
  );
  const link = connect({
    path: () => `${socket}?after=${cursor}`,
    onMessage: (text) => {
      const { seq } = JSON.parse(text) as { seq?: number | null };
      if (!seq) return;
      cursor = seq;
      refreshing.soon();
    },
    onState: (state) => {
      if (lost) lost.hidden = state !== "lost";
      if (state === "open") refreshing.soon();
    },
  });

  const onKey = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (isCommand(event, "enter")) clickInCard(root, "[data-approve]", event);
    else if (isCommand(event, "backspace")) clickInCard(root, "[data-deny]", event);
  };
  document.addEventListener("keydown", onKey);

  return () => {
    document.removeEventListener("keydown", onKey);
    refreshing.stop();
    link.close();
  };
};

export default workflow;

// --- Patching the body

/** Replace the body and keep open details, typed text and the focus. */
export function replaceBody(root: HTMLElement, html: string): HTMLElement | null {
  // Rendered and escaped by our own template.
  const next = new DOMParser().parseFromString(html, "text/html").querySelector<HTMLElement>("[data-body]");
  const old = root.querySelector<HTMLElement>("[data-body]");
  if (!next || !old) return null;
  keepState(old, next);
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.id : "";
  patch(old, next);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  return old;
}

/** Copy open details and typed text to the new body. */
function keepState(old: HTMLElement, next: HTMLElement): void {
  for (const box of old.querySelectorAll<HTMLDetailsElement>("details[id][open]")) {
    next.querySelector(`details[id="${box.id}"]`)?.setAttribute("open", "");
  }
  for (const field of old.querySelectorAll<HTMLInputElement>("input[id]")) {
    const same = next.querySelector<HTMLInputElement>(`input[id="${field.id}"]`);
    if (same && field.value) same.setAttribute("value", field.value);
  }
}

/** Replace only the parts that differ; a new structure replaces everything. */
function patch(old: HTMLElement, next: HTMLElement): void {
  for (const { name, value } of Array.from(next.attributes)) old.setAttribute(name, value);
  const shape = (body: HTMLElement): string =>
    Array.from(body.children, (part) => part.id || part.getAttribute("aria-labelledby")).join();
  if (shape(old) !== shape(next)) {
    old.replaceChildren(...Array.from(next.childNodes));
    return;
  }
  // Copy the live lists, which change while parts move between them.
  const parts = Array.from(next.children);
  Array.from(old.children).forEach((part, nth) => {
    const newer = parts[nth];
    if (!newer) return;
    const list = part.querySelector<HTMLElement>(":scope > [data-steps]");
    const newList = newer.querySelector<HTMLElement>(":scope > [data-steps]");
    if (list && newList) patchList(list, newList);
    else if (token(part.outerHTML) !== token(newer.outerHTML)) part.replaceWith(newer);
  });
}

function patchList(list: HTMLElement, next: HTMLElement): void {
  const items = Array.from(next.children);
  items.forEach((item, nth) => {
    const known = list.children[nth];
    if (!known) list.append(item);
    else if (known.id !== item.id || token(known.outerHTML) !== token(item.outerHTML)) {
      known.replaceWith(item);
    }
  });
  while (list.children.length > items.length) list.lastElementChild?.remove();
}

/** Ignore CSRF tokens, which differ in every response. */
function token(html: string): string {
  return html.replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");
}

/** Announce a status to screen readers, unless it was announced before. */
export function announce(live: HTMLElement, status: string): void {
  if (live.textContent !== status) live.textContent = status;
}
