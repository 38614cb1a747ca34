/**
 * Renders a text that grows. Finished blocks are rendered once; only the last one again.
 *
 * Rendering all of it at every delta would cost more than all else on the page together.
 */
import type { Token } from "markdown-it";
import { markdown, render, type Env } from "./markdown.ts";

export class StreamingText {
  private text = "";
  /** Where the part begins that is not rendered for good. */
  private done = 0;
  private tail: ChildNode[] = [];
  /** Link definitions of earlier blocks hold for later ones. */
  private env: Env = {};

  private readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  /** Shows this text; when it only grew, what stands is left standing. */
  update(given: string): void {
    // One sign for the end of a line, as the parser counts lines.
    const text = given.includes("\r") ? given.replaceAll(/\r\n?/g, "\n") : given;
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const rest = text.slice(this.done);
    const blocks = blocksOf(markdown.parse(rest, this.env));
    const lines = lineStarts(rest);
    for (const node of this.tail) node.remove();
    const last = blocks.pop();
    for (const block of blocks) this.root.append(render(block, this.env));
    if (!last) {
      this.tail = [];
      return;
    }
    this.done += lines[last[0]!.map?.[0] ?? 0] ?? 0;
    const fragment = render(last, this.env);
    this.tail = [...fragment.childNodes];
    this.root.append(fragment);
  }

  private clear(): void {
    this.root.replaceChildren();
    this.text = "";
    this.done = 0;
    this.tail = [];
    this.env = {};
  }
}

/** The tokens of each block at the top level. */
function blocksOf(tokens: Token[]): Token[][] {
  const blocks: Token[][] = [];
  for (const token of tokens) {
    if (token.level === 0 && token.nesting >= 0) blocks.push([]);
    blocks.at(-1)?.push(token);
  }
  return blocks;
}

/** Where each line of a text begins. */
function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}
