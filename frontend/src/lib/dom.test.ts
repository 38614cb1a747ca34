import { afterEach, expect, test, vi } from "vitest";
import { clock } from "./dom.ts";

afterEach(() => vi.useRealTimers());

test("today's times are shown without the day, others with it", () => {
  vi.useFakeTimers();
  vi.setSystemTime(new Date(2026, 10, 16, 21, 40));

  expect(clock(new Date(2026, 10, 16, 9, 5))).toBe("09:05");
  expect(clock(new Date(2026, 10, 15, 21, 40))).toBe("15 Nov, 21:40");
});
