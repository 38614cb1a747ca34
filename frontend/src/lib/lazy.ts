import type { Island } from "./islands.ts";

/** An island whose script is fetched only by the pages that have one; `data-mounted` says that it is there. */
export function lazy(load: () => Promise<{ default: Island }>): Island {
  return (root) => {
    let cleanUp: (() => void) | undefined;
    let gone = false;
    void load().then(({ default: island }) => {
      if (gone) return;
      cleanUp = island(root);
      root.dataset["mounted"] = "";
    });
    return () => {
      gone = true;
      cleanUp?.();
    };
  };
}
