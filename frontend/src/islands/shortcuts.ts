import type { Island } from "../lib/islands.ts";
import { isForPage } from "../lib/keys.ts";

const GO_MS = 1_200;

/**
 * Handle single-key shortcuts: `?` opens the help, G and a letter navigate, `data-key` presses an
 * element, `data-key-else` one on pages without such a key.
 *
 * @example
 * <a href="/memory/" data-go="m">Memory</a> <input data-key="/"> <dialog data-island="shortcuts">…</dialog>
 */
export const shortcuts: Island = (root) => {
  const help = root as HTMLDialogElement;
  let goUntil = 0;

  function act(key: string): boolean {
    if (performance.now() < goUntil) {
      goUntil = 0;
      return press(`[data-go="${CSS.escape(key)}"]`);
    }
    if (key === "g") {
      goUntil = performance.now() + GO_MS;
      return true;
    }
    if (key === "?") {
      help.showModal();
      return true;
    }
    const name = CSS.escape(key);
    return press(`[data-key="${name}"]`) || press(`[data-key-else="${name}"]`);
  }

  const onKey = (event: KeyboardEvent): void => {
    if (!isForPage(event)) return;
    if (event.key.length === 1 && act(event.key.toLowerCase())) event.preventDefault();
  };
  const onClick = (event: MouseEvent): void => {
    if ((event.target as Element).closest("[data-help]")) help.showModal();
    else if (event.target === help) help.close();
  };

  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  return () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick);
  };
};

/** Focus a field or click anything else. Returns false if there is no such element. */
function press(selector: string): boolean {
  const target = document.querySelector<HTMLElement>(selector);
  if (target?.matches("input, textarea")) target.focus();
  else target?.click();
  return target !== null;
}
