/**
 * Changes an element into a newer rendering of it by the server, and keeps what didn't change.
 *
 * What a person did to the element stays: open details, the focus, selected text, scroll positions
 * and typed text. Elements with `data-keep` belong to the browser and stay as they are.
 */
import { markdownBox } from "./markdown-box.ts";

export function morph(old: Element, fresh: Element): void {
  if (old.hasAttribute("data-keep")) return;
  if (old.hasAttribute("data-markdown")) {
    markdownBox(old as HTMLElement).show(fresh.textContent ?? "");
    return;
  }
  copyAttributes(old, fresh);
  morphChildren(old, fresh);
}

function copyAttributes(old: Element, fresh: Element): void {
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

function morphChildren(old: Element, fresh: Element): void {
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const match = firstMatch(at, node);
    if (!match) {
      old.insertBefore(node, at);
      continue;
    }
    while (at && at !== match) at = removed(at);
    at = match.nextSibling;
    if (match instanceof Element) morph(match, node as Element);
    else if (match.nodeValue !== node.nodeValue) match.nodeValue = node.nodeValue;
  }
  while (at) at = removed(at);
}

/** Return the first sibling from here on that shows the same thing as a fresh node. */
function firstMatch(from: ChildNode | null, fresh: ChildNode): ChildNode | null {
  for (let node = from; node; node = node.nextSibling) if (isSame(node, fresh)) return node;
  return null;
}

function isSame(one: ChildNode, other: ChildNode): boolean {
  if (one.nodeName !== other.nodeName) return false;
  if (!(one instanceof Element) || !(other instanceof Element)) return true;
  const names = ["class", "data-action", "data-while"];
  return names.every((name) => one.getAttribute(name) === other.getAttribute(name));
}

/** Remove a node and return the one after it. */
function removed(node: ChildNode): ChildNode | null {
  const next = node.nextSibling;
  node.remove();
  return next;
}
