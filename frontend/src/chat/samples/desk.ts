/** A desk that remembers what was asked of it, for tests. */
import { vi } from "vitest";
import type { Desk } from "../desk.ts";

export const WORDS = {
  exec: { title: "Run a command", subject: "command", effects: "It runs.", covers: "exactly this command" },
};

export function sampleDesk(): Desk {
  const nothing = async (): Promise<void> => undefined;
  return {
    agent: "Coder",
    mayRun: true,
    mayAdmin: true,
    tools: WORDS,
    retry: vi.fn(nothing),
    answer: vi.fn(nothing),
    answerQuestion: vi.fn(nothing),
    lookInto: vi.fn(),
    sayInstead: vi.fn(nothing),
    answerAgain: vi.fn(nothing),
    fork: vi.fn(nothing),
    fileUrl: (path) => `/files/${path}`,
    verify: vi.fn(nothing),
    runAgain: vi.fn(nothing),
    resend: vi.fn(),
    reword: vi.fn(),
    discard: vi.fn(),
    wholeOutput: vi.fn(async () => "all of it"),
    summary: vi.fn(async () => "What was said."),
    undo: vi.fn(nothing),
  };
}
