import { button, h } from "./dom.ts";
import type { Island } from "./islands.ts";

/**
 * An island whose script is fetched only by the pages that have one; `data-mounted` says that it is there.
 *
 * A script that does not come, as after an update of the server, leaves a page that does not live:
 * the page says so instead of keeping silent.
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
        if (!gone) root.before(dead());
      });
    return () => {
      gone = true;
      cleanUp?.();
    };
  };
}

function dead(): HTMLElement {
  return h(
    "div",
    { class: "flash is-error", role: "alert" },
    h("p", { text: "Part of this page did not load, so it may not react or be out of date. " }),
    button("Reload", () => location.reload(), { class: "btn btn-quiet" }),
  );
}
