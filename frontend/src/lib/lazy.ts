import type { Island } from "./islands.ts";

/** An island whose script is fetched only by the pages that have one. */
export function lazy(load: () => Promise<{ default: Island }>): Island {
  return (root) => {
    let cleanUp: (() => void) | undefined;
    let gone = false;
    void load().then(({ default: island }) => {
      if (!gone) cleanUp = island(root);
    });
    return () => {
      gone = true;
      cleanUp?.();
    };
  };
}
