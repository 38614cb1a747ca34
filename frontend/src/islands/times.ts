import { clock, say } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";

/** Relative times are updated, as a page may be open all day. */
const TICK_MS = 20_000;

const SHORT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
const PRECISE: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium" };
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
 * Show times in the viewer's time zone and keep relative times current.
 *
 * @example
 * <body data-island="times">… <time data-exact datetime="2026-01-31T09:00:00+00:00">31 Jan 2026, 09:00 UTC</time>
 */
export const times: Island = (root) => {
  const short = new Intl.DateTimeFormat("en-GB", SHORT);
  const precise = new Intl.DateTimeFormat("en-GB", PRECISE);
  const long = new Intl.DateTimeFormat("en-GB", LONG);

  function write(within: ParentNode): void {
    for (const node of within.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
      const at = new Date(node.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      node.title = long.format(at);
      const exact = node.dataset["exact"];
      if (exact !== undefined) say(node, (exact === "seconds" ? precise : short).format(at));
      if (node.dataset["clock"] !== undefined) say(node, clock(at));
    }
  }
  function updateRelative(): void {
    const now = new Date();
    for (const node of root.querySelectorAll<HTMLTimeElement>("time[data-ago]")) {
      const words = relative(new Date(node.dateTime), now);
      if (words) say(node, words);
    }
  }
  const onShown = (event: Event): void => write(event.target as HTMLElement);

  write(root);
  const ticking = window.setInterval(updateRelative, TICK_MS);
  // Code that adds times to the page dispatches this event.
  root.addEventListener("times-shown", onShown);
  return () => {
    window.clearInterval(ticking);
    root.removeEventListener("times-shown", onShown);
  };
};

// --- Relative times. Keep in step with `relative` in `core/templatetags/frame.py`.

const STEPS: readonly [limit: number, size: number, unit: string][] = [
  [60, 1, "s"],
  [3_600, 60, "min"],
  [86_400, 3_600, "h"],
  [86_400 * 60, 86_400, "d"],
];

/** Return `just now`, `5 min ago` or `in 30 d`, or null if only a date makes sense. */
export function relative(at: Date, now: Date): string | null {
  const seconds = (now.getTime() - at.getTime()) / 1_000;
  const distance = Math.abs(seconds);
  if (distance < 10) return "just now";
  for (const [limit, size, unit] of STEPS) {
    if (distance >= limit) continue;
    const count = `${(seconds > 0 ? Math.floor : Math.ceil)(distance / size)} ${unit}`;
    return seconds > 0 ? `${count} ago` : `in ${count}`;
  }
  return null;
}
