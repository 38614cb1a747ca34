/**
 * Renders a text that grows. Finished blocks are rendered once; only the last one again.
 *
 * Rendering all of it at every delta would cost more than all else on the page together.
 */
import type { Token } from "markdown-it";
import { markdown, render, type Env } from "../lib/markdown.ts";

export class StreamingText {
  private text = "";
  /** Where the part begins that is not rendered for good. */
  private done = 0;
  private tail: ChildNode[] = [];
  /** Links that finished blocks define hold for later ones. */
  private known: Env = {};
  /** A link was defined after blocks that may mean it. */
  private isLate = false;

  private readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  /**
   * Shows this text; when it only grew, what stands is left standing.
   *
   * No more than so many blocks are finished at once. Says whether all of the text is there: if not,
   * the same text again goes on.
   */
  update(given: string, most = Infinity): boolean {
    // One sign for the end of a line, as the parser counts lines.
    const text = given.includes("\r") ? given.replaceAll(/\r\n?/g, "\n") : given;
    // What was written down may lack the blanks that the answer ended in: nothing of it is seen.
    if (text.trimEnd() === this.text.trimEnd()) return true;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const rest = text.slice(this.done);
    const env = copyOf(this.known);
    const blocks = blocksOf(markdown.parse(rest, env));
    this.isLate ||= this.done > 0 && linksIn(env) > linksIn(this.known);
    const starts = lineStarts(rest);
    const startOf = (block: Token[]): number => starts[block[0]!.map?.[0] ?? 0] ?? 0;

    for (const node of this.tail) node.remove();
    const open = blocks.splice(-openBlocks(blocks, startOf, rest));
    const later = blocks.splice(most);
    for (const block of blocks) this.root.append(render(block, env));
    const next = later[0] ?? open[0];
    if (next) this.finish(rest.slice(0, startOf(next)));
    if (later.length) this.text = text.slice(0, this.done);
    const fragment = render(later.length ? [] : open.flat(), env);
    this.tail = [...fragment.childNodes];
    this.root.append(fragment);
    return later.length === 0;
  }

  /** The text is complete. What stood there before its links were defined is rendered once more. */
  settle(): void {
    if (!this.isLate) return;
    const { text } = this;
    this.clear();
    this.update(text);
  }

  /** What lies before the open blocks will not change any more. */
  private finish(part: string): void {
    // Only a definition of a link says something to later blocks.
    if (part.includes("]:")) markdown.parse(part, this.known);
    this.done += part.length;
  }

  private clear(): void {
    this.root.replaceChildren();
    this.text = "";
    this.done = 0;
    this.tail = [];
    this.known = {};
    this.isLate = false;
  }
}

function linksIn(env: Env): number {
  return Object.keys((env["references"] as Env | undefined) ?? {}).length;
}

/**
 * How many of the last blocks may still change.
 *
 * The last one may. So may the one before it while the last is an unfinished line: "3" after a list
 * is a paragraph, and "3. more" is its third point.
 */
function openBlocks(blocks: Token[][], startOf: (block: Token[]) => number, text: string): number {
  const last = blocks.at(-1);
  return last && text.indexOf("\n", startOf(last)) < 0 ? 2 : 1;
}

/** Parsing writes into what it is given; an unfinished definition must not stay there. */
function copyOf(env: Env): Env {
  const references = env["references"];
  return references ? { references: { ...(references as Env) } } : {};
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
