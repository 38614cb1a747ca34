import { afterEach, expect, test, vi } from "vitest";
import { relative, times } from "./times.ts";

let cleanUp = (): void => undefined;
afterEach(() => cleanUp());

function shown(html: string): HTMLElement {
  document.body.innerHTML = html;
  cleanUp = times(document.body);
  return document.querySelector("time")!;
}

const AT = "2026-01-31T09:00:00+00:00";

function local(): string {
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" }).format(new Date(AT));
}

test("an exact time is shown in the viewer's time zone", () => {
  const node = shown(`<time data-exact datetime="${AT}">31 Jan 2026, 09:00 UTC</time>`);

  expect(node.textContent).toBe(local());
  expect(node.title).toContain("31 January 2026");
});

test("an exact time may have seconds", () => {
  const node = shown(`<time data-exact="seconds" datetime="${AT}">31 Jan 2026, 09:00:00 UTC</time>`);

  expect(node.textContent).toMatch(/:00:00$/);
});

test("a relative time keeps its text", () => {
  const node = shown(`<time datetime="${AT}" title="…">5 min ago</time>`);

  expect(node.textContent).toBe("5 min ago");
  expect(node.title).not.toBe("…");
});

test("a relative time is updated while the page is open, and a date is not", () => {
  vi.useFakeTimers({ now: new Date("2026-01-31T09:00:30Z") });
  const node = shown(`<time data-ago datetime="${AT}">30 s ago</time><time data-ago datetime="2025-01-01T00:00:00Z">1 Jan 2025</time>`);
  vi.advanceTimersByTime(5 * 60_000);

  expect(node.textContent).toBe("5 min ago");
  expect(document.querySelectorAll("time")[1]!.textContent).toBe("1 Jan 2025");
  vi.useRealTimers();
});

/** The same cases as in `tests/tenants/pages/test_frame.py`. */
test.each([
  [3, "just now"],
  [40, "40 s ago"],
  [5 * 60, "5 min ago"],
  [(23 * 60 + 59) * 60, "23 h ago"],
  [41 * 86_400, "41 d ago"],
  [400 * 86_400, null],
  [-7 * 86_400 + 1, "in 7 d"],
])("%i s ago is shown as %s", (seconds, words) => {
  const now = new Date(AT);

  expect(relative(new Date(now.getTime() - seconds * 1_000), now)).toBe(words);
});

test("times added later are formatted on the times-shown event", () => {
  shown(`<p></p>`);
  const part = document.querySelector("p")!;
  part.innerHTML = `<time data-exact datetime="${AT}">…</time>`;
  part.dispatchEvent(new Event("times-shown", { bubbles: true }));

  expect(part.textContent).toBe(local());
});

test("an invalid time is left unchanged", () => {
  expect(shown(`<time datetime="soon" data-exact>soon</time>`).textContent).toBe("soon");
});
