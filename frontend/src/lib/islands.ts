import { button, h } from "./dom.ts";

/** Takes over a server-rendered element and returns its clean-up. */
export type Island = (root: HTMLElement) => () => void;

/** Mount the named island on every element with `data-island` under `scope`. */
export function mountIslands(scope: ParentNode, islands: Record<string, Island>): () => void {
  const cleanUps: (() => void)[] = [];
  for (const root of scope.querySelectorAll<HTMLElement>("[data-island]")) {
    const island = islands[root.dataset["island"] ?? ""];
    if (!island) throw new Error(`No island is named "${root.dataset["island"]}".`);
    cleanUps.push(island(root));
  }
  return () => {
    for (const cleanUp of cleanUps) cleanUp();
  };
}

/**
 * Load an island's script only on pages that have one; sets `data-mounted` when ready.
 *
 * If the script fails to load, for example after an update of the server, the page says so.
 */
export function lazy(load: () => Promise<{ default: Island }>): Island {
  return (root) => {
    let cleanUp: (() => void) | undefined;
    let gone = false;
    load()
      .then(({ default: island }) => {
        if (gone) return;
        cleanUp = island(root);
        root.dataset["mounted"] = "";
      })
      .catch((fault: unknown) => {
        console.error(fault);
        if (!gone) root.before(loadError());
      });
    return () => {
      gone = true;
      cleanUp?.();
    };
  };
}

function loadError(): HTMLElement {
  return h(
    "div",
    { class: "flash is-error", role: "alert" },
    h("p", { text: "Part of this page didn't load. It may be out of date or not respond. " }),
    button("Reload", () => location.reload(), { class: "btn btn-quiet" }),
  );
}
