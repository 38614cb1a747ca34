import { isTyping } from "../lib/keys.ts";
import { standing, walkAlong } from "../lib/walk.ts";

/** J and K move along the rows, E exports the one that has the focus; Enter presses its link. */
export function walk(root: HTMLElement, follow: (link: HTMLElement) => void): () => void {
  const links = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>("[data-open]")];

  const onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    if (event.key !== "e" || isTyping(event) || document.querySelector("dialog[open]")) return;
    const url = standing(links())?.dataset["export"];
    if (!url) return;
    event.preventDefault();
    location.assign(url);
  };

  document.addEventListener("keydown", onKey);
  const leave = walkAlong(links, follow);
  return () => {
    document.removeEventListener("keydown", onKey);
    leave();
  };
}
