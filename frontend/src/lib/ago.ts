/** How far a moment is, in few words; `relative` of `tenants/templatetags/frame.py` says the same. */

const STEPS: readonly [limit: number, size: number, unit: string][] = [
  [60, 1, "s"],
  [3_600, 60, "min"],
  [86_400, 3_600, "h"],
  [86_400 * 60, 86_400, "d"],
];

/** `just now`, `5 min ago`, `in 30 d`; nothing when it is so far that only the date says it. */
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
