import { relative } from "../lib/ago.ts";
import { say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";

/** A page may be open all day: what was a minute ago is not for ever. */
const TICK_MS = 20_000;

const SHORT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
const LONG: Intl.DateTimeFormatOptions = {
  day: "numeric",
  month: "long",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
};

/**
 * Says every time of the page in the viewer's own time zone: the exact one on hover, and, where the
 * page shows an exact time, in its text. Distances in time are counted on.
 *
 * @example
 * <body data-island="times">… <time data-exact datetime="2026-01-31T09:00:00+00:00">31 Jan 2026, 09:00 UTC</time>
 */
export const times: Island = (root) => {
  const short = new Intl.DateTimeFormat("en-GB", SHORT);
  const long = new Intl.DateTimeFormat("en-GB", LONG);

  function write(within: ParentNode): void {
    for (const node of within.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
      const at = new Date(node.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      node.title = long.format(at);
      if (node.dataset["exact"] !== undefined) node.textContent = short.format(at);
    }
  }
  function count(): void {
    const now = new Date();
    for (const node of root.querySelectorAll<HTMLTimeElement>("time[data-ago]")) {
      const words = relative(new Date(node.dateTime), now);
      if (words) say(node, words);
    }
  }
  const onShown = (event: Event): void => write(event.target as HTMLElement);

  write(root);
  const ticking = window.setInterval(count, TICK_MS);
  // Whoever puts new times on the page says so.
  root.addEventListener("times-shown", onShown);
  return () => {
    window.clearInterval(ticking);
    root.removeEventListener("times-shown", onShown);
  };
};
