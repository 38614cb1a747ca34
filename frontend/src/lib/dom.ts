/** Helpers to build elements. Text is always text, never HTML. */

type Child = Node | string | null | undefined | false;

interface Facts {
  class?: string;
  text?: string;
  /** Attributes; false omits one. */
  [attribute: string]: string | boolean | undefined;
}

/** Create an element with attributes and children. */
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

/** Return a copy of an icon from `<template id="chat-icons">`. */
export function icon(name: string): Node {
  const store = document.querySelector<HTMLTemplateElement>("[data-chat-icons], #chat-icons");
  const found = store?.content.querySelector(`[data-icon="${name}"] > svg`);
  return found ? document.importNode(found, true) : document.createTextNode("");
}

/** Create a button with a text, or with an icon and an accessible name. */
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

/** Set a text only if it differs, so nothing is announced twice or deselected. */
export function say(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Return an element or throw if the page lacks it. */
export function requireElement<T extends Element>(root: ParentNode, selector: string): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`The page lacks ${selector}.`);
  return found;
}

/** Format a time of day, with the date if it isn't today. */
export function clock(at: Date): string {
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

/** Copy text and confirm it on the button for a moment. */
export async function copyText(text: string, by: HTMLElement): Promise<void> {
  const words = by.getAttribute("aria-label") ?? by.textContent ?? "";
  const hasIcon = by.hasAttribute("aria-label");
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Select it and press Ctrl+C";
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
