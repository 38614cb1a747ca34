
/** The chosen theme, stored in this browser. `theme.js` applies it before the first paint. */
export type Theme = "system" | "light" | "dark";

const KEY = "theme";
const CHANGED = "switchyard:theme";

export function storedTheme(): Theme {
  const choice = localStorage.getItem(KEY);
  return choice === "light" || choice === "dark" ? choice : "system";
}

/** Return the theme in effect. */
export function shownTheme(): "light" | "dark" {
  const choice = storedTheme();
  if (choice !== "system") return choice;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function chooseTheme(choice: Theme): void {
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  applyTheme();
}

function applyTheme(): void {
  const choice = storedTheme();
  const root = document.documentElement;
  if (choice === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = `switchyard-${choice}`;
  document.dispatchEvent(new Event(CHANGED));
}

/** Call back now and whenever the theme changes, here or in another tab. */
export function watchTheme(onChange: () => void): () => void {
  const onStorage = (event: StorageEvent): void => {
    if (event.key === KEY) applyTheme();
  };
  document.addEventListener(CHANGED, onChange);
  window.addEventListener("storage", onStorage);
  onChange();
  return () => {
    document.removeEventListener(CHANGED, onChange);
    window.removeEventListener("storage", onStorage);
  };
}
