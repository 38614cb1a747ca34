/**
 * Renders growing Markdown. Finished blocks are rendered once, only the last one again.
 *
 * Rendering everything at every delta would cost more than the rest of the page together.
 */
import type { Token } from "markdown-it";
import { type Env, markdown, render } from "../lib/markdown.ts";

export class StreamingText {
  private text = "";
  /** Offset of the first unfinished block. */
  private done = 0;
  private tail: ChildNode[] = [];
  /** Link definitions of finished blocks, valid for later ones. */
  private known: Env = {};
  /** A link was defined after blocks that may refer to it. */
  private isLate = false;

  private readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  /**
   * Show a text; if it only grew, rendered blocks stay.
   *
   * At most `most` blocks are finished per call. Returns false if more remain; call again with the
   * same text to continue.
   */
  update(given: string, most = Infinity): boolean {
    // Use single line feeds, as the parser counts lines by them.
    const text = given.includes("\r") ? given.replaceAll(/\r\n?/g, "\n") : given;
    // The stored text may lack trailing blanks of the stream, which aren't visible.
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

  /** Finish: render again if links were defined after their use. */
  settle(): void {
    if (!this.isLate) return;
    const { text } = this;
    this.clear();
    this.update(text);
  }

  /** Forget what was shown, after the element was emptied. */
  reset(): void {
    this.clear();
  }

  /** Mark everything before the open blocks as finished. */
  private finish(part: string): void {
    // Only link definitions affect later blocks.
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
 * Return how many of the last blocks may still change.
 *
 * The last one may. So may the one before it while the last is an unfinished line: "3" after a list
 * is a paragraph, but "3. more" is its third item.
 */
function openBlocks(blocks: Token[][], startOf: (block: Token[]) => number, text: string): number {
  const last = blocks.at(-1);
  return last && text.indexOf("\n", startOf(last)) < 0 ? 2 : 1;
}

/** Copy the environment: parsing writes to it, and an unfinished definition must not stay. */
function copyOf(env: Env): Env {
  const references = env["references"];
  return references ? { references: { ...(references as Env) } } : {};
}

/** Group tokens by top-level block. */
function blocksOf(tokens: Token[]): Token[][] {
  const blocks: Token[][] = [];
  for (const token of tokens) {
    if (token.level === 0 && token.nesting >= 0) blocks.push([]);
    blocks.at(-1)?.push(token);
  }
  return blocks;
}

/** Return the offset of each line. */
function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/**
 * Marks the element in which an answer is being written.
 *
 * A CSS rule on the line would restyle the whole answer each time.
 */
export class Caret {
  private at: Element | null = null;

  /** Move the caret to the end of the text, or remove it. */
  move(text: Element | null): void {
    const next = text && placeIn(text);
    if (next === this.at) return;
    this.at?.removeAttribute("data-caret");
    next?.setAttribute("data-caret", "");
    this.at = next;
  }
}

/** Return the innermost element that ends in text, or null where a caret would stand alone. */
function placeIn(box: Element): Element | null {
  const last = box.lastElementChild;
  if (box.matches("li") && !last?.matches("p, ul, ol")) return box;
  if (last?.matches("p, h3, h4, h5, h6")) return last;
  if (last?.matches("ul, ol, li")) return placeIn(last);
  if (last?.matches(".code-box")) return last.querySelector("code");
  return null;
}
