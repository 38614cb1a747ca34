import type { Island } from "../lib/islands.ts";

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
 * page shows an exact time, in its text.
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
  const onShown = (event: Event): void => write(event.target as HTMLElement);

  write(root);
  // Whoever puts new times on the page says so.
  root.addEventListener("times-shown", onShown);
  return () => root.removeEventListener("times-shown", onShown);
};
