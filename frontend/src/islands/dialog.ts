import type { Island } from "../lib/islands.ts";

/**
 * Open a `<dialog>` instead of following a link. Without JavaScript the link opens the same form.
 *
 * @example
 * <a href="/settings/keys/new/" data-island="dialog" data-dialog="new-key">New key</a>
 * <dialog id="new-key" class="sheet">…</dialog>
 */
export const dialog: Island = (root) => {
  const box = document.getElementById(root.dataset["dialog"] ?? "");
  if (!(box instanceof HTMLDialogElement)) throw new Error("dialog needs data-dialog, an id.");

  const open = (event: MouseEvent): void => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    box.showModal();
  };
  // A press on the dialog element itself is on its backdrop.
  const onBackdrop = (event: MouseEvent): void => {
    if (event.target === box) box.close();
  };

  root.addEventListener("click", open);
  box.addEventListener("mousedown", onBackdrop);
  return () => {
    root.removeEventListener("click", open);
    box.removeEventListener("mousedown", onBackdrop);
  };
};
