/** Shows agents' texts as Markdown, also while they grow. The server renders them as plain text. */
import { enrich } from "../lib/markdown.ts";
import { Caret, StreamingText } from "./streaming.ts";

/** Blocks rendered per animation frame; a burst takes several frames. */
const BLOCKS = 2;
/** Dispatched when a text became longer in a later animation frame. */
export const GROWN = "line-grown";

const boxes = new WeakMap<HTMLElement, MarkdownBox>();

/** Return the box of an element with `data-markdown`. */
export function markdownBox(element: HTMLElement): MarkdownBox {
  let box = boxes.get(element);
  if (!box) {
    box = new MarkdownBox(element);
    boxes.set(element, box);
  }
  return box;
}

/** Render all Markdown under an element that the server sent as plain text. */
export function renderMarkdownIn(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLElement>("[data-markdown]")) markdownBox(element);
}

export class MarkdownBox {
  /** The text as the agent wrote it. */
  source: string;
  private frame = 0;
  private readonly element: HTMLElement;
  private readonly text: StreamingText;
  private readonly caret = new Caret();

  constructor(element: HTMLElement) {
    this.element = element;
    this.source = element.textContent ?? "";
    element.replaceChildren();
    element.dataset["rendered"] = "";
    this.text = new StreamingText(element);
    if (this.source) this.show(this.source);
  }

  /** Show a text; `isDraft` says that more of it may come. */
  show(text: string, isDraft = false): void {
    this.source = text;
    window.cancelAnimationFrame(this.frame);
    const isBegun = this.element.firstChild !== null && !document.hidden;
    const isWhole = this.text.update(text, isBegun ? BLOCKS : Infinity);
    if (!isWhole) this.frame = window.requestAnimationFrame(() => this.goOn(isDraft));
    const isWriting = isDraft || !isWhole;
    if (!isWriting) {
      this.text.settle();
      enrich(this.element);
    }
    this.element.closest("[data-key]")?.toggleAttribute("data-streaming", isWriting);
    this.caret.move(isWriting ? this.element : null);
  }

  /** Show the text again after something else took its place. */
  redraw(): void {
    this.element.replaceChildren();
    this.text.reset();
    this.show(this.source);
  }

  private goOn(isDraft: boolean): void {
    this.show(this.source, isDraft);
    this.element.dispatchEvent(new Event(GROWN, { bubbles: true }));
  }
}
