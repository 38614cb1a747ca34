/** Small tools to write elements without a template language. Text is text, never HTML. */

type Child = Node | string | null | undefined | false;

interface Facts {
  class?: string;
  text?: string;
  /** Attributes as they are written; false leaves one out. */
  [attribute: string]: string | boolean | undefined;
}

/** An element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  facts: Facts = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (value === undefined || value === false) continue;
    if (name === "text") node.textContent = String(value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

/** A copy of an icon that the page brought along in `<template id="chat-icons">`. */
export function icon(name: string): Node {
  const store = document.querySelector<HTMLTemplateElement>("[data-chat-icons], #chat-icons");
  const found = store?.content.querySelector(`[data-icon="${name}"] > svg`);
  return found ? document.importNode(found, true) : document.createTextNode("");
}

/** A button that does something, by its words or by an icon with a name for those who do not see. */
export function button(
  words: string,
  act: () => void,
  facts: Facts & { icon?: string } = {},
): HTMLButtonElement {
  const { icon: symbol, ...rest } = facts;
  const node = h("button", { type: "button", ...rest });
  if (symbol) {
    node.append(icon(symbol));
    node.setAttribute("aria-label", words);
    node.title = words;
  } else {
    node.textContent = words;
  }
  node.addEventListener("click", act);
  return node;
}

/** Sets a text only when it differs, so that nothing is announced or selected away twice. */
export function say(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** The one element that a page must have. */
export function need<T extends Element>(root: ParentNode, selector: string): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`The page lacks ${selector}.`);
  return found;
}

/** The time of the day as every page writes it; on another day with the day. */
export function clock(at: Date): string {
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

/** A moment as a short time, with all of it on hover. */
export function timeOf(at: string): HTMLTimeElement | null {
  const moment = new Date(at);
  if (!at || Number.isNaN(moment.getTime())) return null;
  const title = moment.toLocaleString("en-GB", { dateStyle: "long", timeStyle: "medium" });
  return h("time", { datetime: at, title, text: clock(moment) });
}

/** Puts text on the clipboard and says so on the button for a moment. */
export async function copyText(text: string, by: HTMLElement): Promise<void> {
  const words = by.getAttribute("aria-label") ?? by.textContent ?? "";
  const hasIcon = by.hasAttribute("aria-label");
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Select it and press Ctrl-C";
  }
  if (hasIcon) by.setAttribute("aria-label", said);
  else by.textContent = said;
  by.toggleAttribute("data-copied", said === "Copied");
  window.setTimeout(() => {
    if (hasIcon) by.setAttribute("aria-label", words);
    else by.textContent = words;
    by.removeAttribute("data-copied");
  }, 2_000);
}

/** A small button by an icon for something that takes a moment, and cannot be pressed twice. */
export function act(words: string, symbol: string, does: () => Promise<unknown>): HTMLButtonElement {
  const run = async (): Promise<void> => {
    node.disabled = true;
    try {
      await does();
    } finally {
      node.disabled = false;
    }
  };
  const node = button(words, () => void run(), {
    class: "btn btn-bare btn-square btn-xs",
    icon: symbol,
  });
  return node;
}
