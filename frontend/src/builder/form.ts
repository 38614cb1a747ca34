/** Merges draft changes into the configuration form without overwriting what a person is typing. */

type Field = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

const HIGHLIGHT_MS = 2_400;

function fieldsOf(form: HTMLFormElement): Field[] {
  return [...form.querySelectorAll<Field>("[data-part]")];
}

/** Return the value that the server rendered. */
function initialOf(field: Field): string {
  if (field instanceof HTMLSelectElement) {
    const first = [...field.options].find((option) => option.defaultSelected);
    return first?.value ?? field.options[0]?.value ?? "";
  }
  return field.defaultValue;
}

export function isDirty(field: Field): boolean {
  return field.value !== initialOf(field);
}

/** Update the form to a newer one. A field with unsaved input keeps it and shows a note. */
export function mergeForm(form: HTMLFormElement, next: HTMLFormElement): void {
  for (const field of fieldsOf(form)) {
    const newer = next.querySelector<Field>(`[name="${field.name}"]`);
    if (!newer || initialOf(newer) === initialOf(field)) continue;
    const keeps = isDirty(field);
    const typed = field.value;
    setSaved(field, initialOf(newer));
    if (keeps) {
      field.value = typed;
      noteOn(field);
    }
  }
}

/** Unsaved input of a field and the value it was based on. */
interface Typed {
  value: string;
  initial: string;
}

/** Unsaved input by field name. */
export type Unsaved = Map<string, Typed>;

export function unsavedIn(form: HTMLFormElement): Unsaved {
  const dirty = fieldsOf(form).filter(isDirty);
  return new Map(dirty.map((field) => [field.name, { value: field.value, initial: initialOf(field) }]));
}

/** Restore unsaved input in a newly rendered form. */
export function putUnsaved(form: HTMLFormElement, unsaved: Unsaved): void {
  for (const field of fieldsOf(form)) {
    const typed = unsaved.get(field.name);
    if (!typed) continue;
    field.value = typed.value;
    if (initialOf(field) !== typed.initial) noteOn(field);
  }
  form.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Make this the saved value of the field. */
function setSaved(field: Field, value: string): void {
  if (field instanceof HTMLSelectElement) {
    for (const option of field.options) option.defaultSelected = option.value === value;
  } else {
    field.defaultValue = value;
  }
  field.value = value;
}

function noteOn(field: Field): void {
  const box = field.closest(".field");
  if (!box || box.querySelector(".field-also")) return;
  const note = document.createElement("p");
  note.className = "field-also";
  note.textContent = "This field was changed in the meantime. Saving overwrites that change.";
  box.append(note);
}

/** Highlight changed parts for a moment. */
export function highlight(root: HTMLElement, parts: readonly string[]): void {
  for (const part of parts) {
    const found = root.querySelectorAll<HTMLElement>(`[data-part="${part}"], [data-change="${part}"]`);
    for (const one of found) {
      one.removeAttribute("data-lit");
      // Reading its size restarts the animation.
      void one.offsetWidth;
      one.setAttribute("data-lit", "");
      window.setTimeout(() => one.removeAttribute("data-lit"), HIGHLIGHT_MS);
    }
  }
}

/** Show the unsaved-changes note and ask before leaving the page. */
export function watchForm(root: HTMLElement, isHeld: () => boolean): () => void {
  const listening = new AbortController();
  const { signal } = listening;
  let isSaving = false;

  root.addEventListener(
    "input",
    (event) => {
      const form = (event.target as HTMLElement).closest<HTMLFormElement>("[data-build-form]");
      const note = form?.querySelector<HTMLElement>("[data-build-dirty]");
      if (form && note) note.hidden = !fieldsOf(form).some(isDirty);
    },
    { signal },
  );
  root.addEventListener(
    "submit",
    (event) => {
      isSaving = (event.target as HTMLElement).matches("[data-build-form]");
    },
    { signal },
  );
  window.addEventListener(
    "beforeunload",
    (event) => {
      const form = root.querySelector<HTMLFormElement>("[data-build-form]");
      const isUnsaved = isHeld() || (form !== null && unsavedIn(form).size > 0);
      if (isUnsaved && !isSaving) event.preventDefault();
    },
    { signal },
  );
  return () => listening.abort();
}
