import { afterEach, expect, test, vi } from "vitest";
import { clock, timeOf } from "./dom.ts";

afterEach(() => vi.useRealTimers());

test("today's times are shown without the day, others with it", () => {
  vi.useFakeTimers();
  vi.setSystemTime(new Date(2026, 10, 16, 21, 40));

  expect(clock(new Date(2026, 10, 16, 9, 5))).toBe("09:05");
  expect(clock(new Date(2026, 10, 15, 21, 40))).toBe("15 Nov, 21:40");
});

test("an invalid time is not shown", () => {
  expect(timeOf("")).toBeNull();
  expect(timeOf("soon")).toBeNull();
  expect(timeOf("2026-11-16T21:40:00Z")?.title).toContain("2026");
});
