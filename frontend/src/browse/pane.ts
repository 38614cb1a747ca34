import { fetchPart, isAbort } from "../lib/part.ts";

interface Pane {
  /** Shows another row, if the pane is open. */
  follow: (link: HTMLElement) => void;
  cleanUp: () => void;
}

const NARROW = "(max-width: 63.99rem)";

/** Opens a row beside the list. Pressed again, and on a narrow screen, the link leads to its page. */
export function pane(root: HTMLElement): Pane {
  const box = root.querySelector<HTMLElement>("[data-pane]");
  const said = root.querySelector<HTMLElement>("[data-said]");
  if (!box) throw new Error("browse needs a [data-pane].");
  let shown: HTMLElement | undefined;
  let asking: AbortController | undefined;

  async function open(link: HTMLElement): Promise<void> {
    asking?.abort();
    asking = new AbortController();
    mark(link);
    try {
      const part = await fetchPart(link.dataset["open"] ?? "", { signal: asking.signal });
      box!.replaceChildren(...part.body.childNodes);
      box!.dispatchEvent(new Event("times-shown", { bubbles: true }));
      box!.hidden = false;
      box!.scrollTop = 0;
      if (said) said.textContent = `Preview of ${link.textContent} is open.`;
    } catch (fault) {
      if (isAbort(fault)) return;
      location.assign((link as HTMLAnchorElement).href);
    }
  }

  function mark(link: HTMLElement | undefined): void {
    shown?.closest("[data-row]")?.removeAttribute("data-shown");
    shown = link;
    shown?.closest("[data-row]")?.setAttribute("data-shown", "");
  }

  function close(): void {
    asking?.abort();
    const link = shown;
    mark(undefined);
    box!.hidden = true;
    box!.replaceChildren();
    link?.focus();
  }

  const onClick = (event: MouseEvent): void => {
    const target = event.target as Element;
    if (target.closest("[data-close]")) return close();
    const link = target.closest<HTMLElement>("[data-open]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!link || !plain || link === shown || matchMedia(NARROW).matches) return;
    event.preventDefault();
    void open(link);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || box.hidden || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    close();
  };

  root.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  return {
    follow: (link) => {
      if (!box.hidden && link !== shown) void open(link);
    },
    cleanUp: () => {
      asking?.abort();
      root.removeEventListener("click", onClick);
      document.removeEventListener("keydown", onKey);
    },
  };
}
