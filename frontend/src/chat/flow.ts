/** Keeps the list of lines on the page equal to the items: nodes stay, and move only if they must. */
import type { Desk } from "./desk.ts";
import type { Item } from "./items.ts";
import { formOf, lineOf, type Line } from "./lines.ts";

interface Drawn {
  item: Item;
  form: string;
  line: Line;
}

export class Flow {
  private drawn = new Map<string, Drawn>();
  private readonly list: HTMLElement;
  private readonly desk: Desk;

  constructor(list: HTMLElement, desk: Desk) {
    this.list = list;
    this.desk = desk;
    list.replaceChildren();
  }

  draw(items: readonly Item[]): void {
    const next = new Map<string, Drawn>();
    for (const item of items) next.set(item.key, this.one(item));
    for (const [key, { line }] of this.drawn) {
      if (next.get(key)?.line !== line) line.node.remove();
    }
    this.drawn = next;
    let at: ChildNode | null = this.list.firstChild;
    for (const { line } of next.values()) {
      if (line.node === at) at = at.nextSibling;
      else this.list.insertBefore(line.node, at);
    }
  }

  private one(item: Item): Drawn {
    const known = this.drawn.get(item.key);
    const form = formOf(item, this.desk);
    if (known?.form !== form) return { item, form, line: lineOf(item, this.desk) };
    if (known.item !== item) known.line.update(item);
    return { item, form, line: known.line };
  }
}
