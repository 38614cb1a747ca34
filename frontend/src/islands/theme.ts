import type { Island } from "../lib/islands.ts";
import { chooseTheme, shownTheme, storedTheme, type Theme, watchTheme } from "../lib/theme.ts";

/**
 * A button that toggles between light and dark.
 *
 * @example
 * <button type="button" data-island="theme-flip">…</button>
 */
export const themeFlip: Island = (root) => {
  const flip = (): void => chooseTheme(shownTheme() === "dark" ? "light" : "dark");
  root.addEventListener("click", flip);
  return () => root.removeEventListener("click", flip);
};

/**
 * A group of theme buttons with the current choice pressed.
 *
 * @example
 * <div role="group" data-island="theme-choice"><button data-choice="system">System</button>…</div>
 */
export const themeChoice: Island = (root) => {
  const buttons = [...root.querySelectorAll<HTMLButtonElement>("[data-choice]")];
  const choose = (event: Event): void => {
    const button = (event.target as Element).closest<HTMLElement>("[data-choice]");
    if (button) chooseTheme(button.dataset["choice"] as Theme);
  };
  const stop = watchTheme(() => {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset["choice"] === storedTheme()));
    }
  });
  root.addEventListener("click", choose);
  return () => {
    stop();
    root.removeEventListener("click", choose);
  };
};
