/** Thumbs below answers: a person's own rating, and a form that asks for the reason. */
import { requireElement, say } from "../lib/dom.ts";
import type { Rest } from "../lib/rest.ts";
import type { Action } from "./actions.ts";
import { copyTemplate } from "./transcript.ts";

type Rating = 1 | -1;

interface RatingOptions {
  rest: Rest;
  /** REST path of the session. */
  api: string;
  templates: ParentNode;
  /** The person's ratings so far, by the seq of the answer. */
  given: Record<string, number>;
}

const QUESTIONS: Record<Rating, string> = { 1: "What was good?", [-1]: "What was wrong?" };

export class Ratings {
  private readonly given: Map<string, number>;
  private readonly options: RatingOptions;

  constructor(options: RatingOptions) {
    this.options = options;
    this.given = new Map(Object.entries(options.given));
  }

  /** Show on the buttons of all answers how they were rated. */
  mark(root: ParentNode): void {
    for (const line of root.querySelectorAll<HTMLElement>("[data-seq]:has([data-action=good])")) this.markLine(line);
  }

  get actions(): Record<string, Action> {
    return {
      good: (_button, line) => this.toggle(line, 1),
      bad: (_button, line) => this.toggle(line, -1),
      rate: (_button, line) => this.explain(line),
      "cancel-rating": (_button, line) => line.querySelector("form[data-action=rate]")?.remove(),
    };
  }

  private markLine(line: HTMLElement): void {
    const rating = this.given.get(line.dataset["seq"] ?? "");
    for (const [name, value] of [["good", 1], ["bad", -1]] as const) {
      line.querySelector(`[data-action=${name}]`)?.setAttribute("aria-pressed", String(rating === value));
    }
  }

  private async toggle(line: HTMLElement, rating: Rating): Promise<void> {
    const seq = line.dataset["seq"] ?? "";
    line.querySelector("form[data-action=rate]")?.remove();
    if (this.given.get(seq) === rating) {
      await this.options.rest.remove(this.path(seq));
      this.given.delete(seq);
    } else {
      await this.options.rest.put(this.path(seq), { rating });
      this.given.set(seq, rating);
      const form = copyTemplate(this.options.templates, "feedback");
      say(requireElement(form, "[data-ask]"), QUESTIONS[rating]);
      const input = requireElement<HTMLInputElement>(form, "input");
      line.append(form);
      input.focus();
    }
    this.markLine(line);
  }

  private async explain(line: HTMLElement): Promise<void> {
    const seq = line.dataset["seq"] ?? "";
    const form = requireElement<HTMLFormElement>(line, "form[data-action=rate]");
    const reason = requireElement<HTMLInputElement>(form, "input").value;
    await this.options.rest.put(this.path(seq), { rating: this.given.get(seq) ?? 1, reason });
    form.remove();
    line.querySelector<HTMLElement>("[data-action=good]")?.focus();
  }

  private path(seq: string): string {
    return `${this.options.api}feedback/${seq}/`;
  }
}
