/** Presses the button of the card that one is in, else of the first; not while something is typed. */
export function pressInCard(root: ParentNode, selector: string, event: KeyboardEvent): void {
  // A key that is held would answer the next question too, which nobody has read.
  if (event.repeat) return;
  const target = event.target as HTMLElement;
  const card = target.closest?.(".approval") ?? null;
  const isText = target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;
  // In a card, Ctrl-Enter sends what was typed; elsewhere the text comes first.
  if (isText && target.value && !(card && selector === "[data-approve]")) return;
  const button = (card ?? root).querySelector<HTMLButtonElement>(selector);
  if (!button) return;
  event.preventDefault();
  button.click();
}
