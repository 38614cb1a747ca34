/** Builds the named icons of the Lucide set into `icons.json` for `{% icon %}`. */
import { readFile } from "node:fs/promises";
import lucide from "@iconify-json/lucide/icons.json" with { type: "json" };
import type { Plugin } from "vite";

interface IconSet {
  icons: Record<string, { body: string }>;
  aliases?: Record<string, { parent: string }>;
}

/** Return the contents of an icon's `<svg>`, without the stroke width that the style sheet sets. */
export function drawing(set: IconSet, name: string): string {
  const found = set.icons[name] ?? set.icons[set.aliases?.[name]?.parent ?? ""];
  if (!found) throw new Error(`Lucide has no icon named "${name}".`);
  return found.body.replaceAll(/ stroke-width="[^"]*"/g, "");
}

/** Emit `icons.json`: every name in `list` with its drawing. */
export function icons(list: string): Plugin {
  return {
    name: "icons",
    buildStart() {
      this.addWatchFile(list);
    },
    async generateBundle() {
      const names = JSON.parse(await readFile(list, "utf8")) as string[];
      const drawings = Object.fromEntries(
        names.toSorted().map((name) => [name, drawing(lucide as IconSet, name)]),
      );
      this.emitFile({
        type: "asset",
        fileName: "icons.json",
        source: JSON.stringify(drawings),
      });
    },
  };
}
