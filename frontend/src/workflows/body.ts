/** Puts a newer body in the place of the one that is shown, and leaves alone what is the same. */

/** What people opened, typed and stood on stays as it is. */
export function replaceBody(root: HTMLElement, html: string): HTMLElement | null {
  // Written by the server's own template, which escapes what others wrote.
  const next = new DOMParser().parseFromString(html, "text/html").querySelector<HTMLElement>("[data-body]");
  const old = root.querySelector<HTMLElement>("[data-body]");
  if (!next || !old) return null;
  keepState(old, next);
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.id : "";
  patch(old, next);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  return old;
}

/** Open details stay open, and a note that is being typed stays typed. */
function keepState(old: HTMLElement, next: HTMLElement): void {
  for (const box of old.querySelectorAll<HTMLDetailsElement>("details[id][open]")) {
    next.querySelector(`details[id="${box.id}"]`)?.setAttribute("open", "");
  }
  for (const field of old.querySelectorAll<HTMLInputElement>("input[id]")) {
    const same = next.querySelector<HTMLInputElement>(`input[id="${field.id}"]`);
    if (same && field.value) same.setAttribute("value", field.value);
  }
}

/** Replaces only the parts with an id that differ; a new shape replaces all of it. */
function patch(old: HTMLElement, next: HTMLElement): void {
  for (const { name, value } of Array.from(next.attributes)) old.setAttribute(name, value);
  const shape = (body: HTMLElement): string =>
    Array.from(body.children, (part) => part.id || part.getAttribute("aria-labelledby")).join();
  if (shape(old) !== shape(next)) {
    old.replaceChildren(...Array.from(next.childNodes));
    return;
  }
  // Both lists change while parts move from one to the other.
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

/** The token of a form is another in every answer and says nothing. */
function token(html: string): string {
  return html.replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");
}

/** What those who do not see the page hear, when it is something new. */
export function announcement(said: string, body: HTMLElement): string {
  const status = body.dataset["status"] ?? "";
  return said === status ? said : status;
}
