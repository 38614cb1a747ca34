/** The list of rules: adds a row like the last one, and takes rows away. */
export function editRules(form: HTMLFormElement, changed: () => void): () => void {
  const list = form.querySelector<HTMLElement>("[data-rules]");
  const spare = [...(list?.querySelectorAll<HTMLElement>("[data-spare]") ?? [])];
  const pattern = spare[0]?.cloneNode(true) as HTMLElement | undefined;
  // Without a script the spare rows are the way to add one; with it, there is a button.
  for (const row of spare) if (!row.querySelector("input")?.value) row.remove();

  const onClick = (event: Event): void => {
    const target = event.target as Element;
    if (target.closest("[data-add]") && pattern && list) {
      const row = pattern.cloneNode(true) as HTMLElement;
      list.append(row);
      row.querySelector("input")?.focus();
      return;
    }
    const remove = target.closest("[data-remove]");
    const row = remove?.closest("[data-rule]");
    if (!row) return;
    const next = (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("input");
    row.remove();
    (next ?? form.querySelector<HTMLElement>("[data-add]"))?.focus();
    changed();
  };

  form.addEventListener("click", onClick);
  return () => form.removeEventListener("click", onClick);
}
