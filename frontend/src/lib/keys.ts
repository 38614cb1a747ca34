/** Whether a key press belongs to what is being typed into, not to the page. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target;
  return (
    event.isComposing ||
    (target instanceof HTMLElement &&
      (target.isContentEditable || target.matches("input, textarea, select, [contenteditable]")))
  );
}

/** ⌘ on a Mac, Ctrl elsewhere, with one key and nothing else. */
export function isCommand(event: KeyboardEvent, key: string): boolean {
  return (
    (event.metaKey || event.ctrlKey) &&
    !event.altKey &&
    !event.shiftKey &&
    event.key.toLowerCase() === key
  );
}
