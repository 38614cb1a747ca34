import type { Island } from "../lib/islands.ts";

const SHOWN_MS = 2_000;

/**
 * Copy the text of another element and confirm it for a moment.
 *
 * @example
 * <code id="key">sy_…</code>
 * <button data-island="copy" data-from="key"><span aria-live="polite">Copy</span></button>
 */
export const copy: Island = (root) => {
  const source = document.getElementById(root.dataset["from"] ?? "");
  if (!source) throw new Error("copy needs data-from, the id of what to copy.");
  const label = root.querySelector<HTMLElement>("[aria-live]") ?? root;
  const words = label.textContent;
  let timer: number | undefined;

  async function run(): Promise<void> {
    const copied = await write(source!);
    label.textContent = copied ? "Copied" : "Press Ctrl+C";
    root.toggleAttribute("data-copied", copied);
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      label.textContent = words;
      root.removeAttribute("data-copied");
    }, SHOWN_MS);
  }

  const onClick = (): void => void run();
  root.addEventListener("click", onClick);
  return () => {
    window.clearTimeout(timer);
    root.removeEventListener("click", onClick);
  };
};

/** The clipboard API exists only on https and localhost; elsewhere the text is selected. */
async function write(source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText((source.textContent ?? "").trim());
    return true;
  } catch {
    window.getSelection()?.selectAllChildren(source);
    return false;
  }
}
