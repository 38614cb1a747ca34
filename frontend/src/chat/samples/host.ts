/** A host that records calls, for tests. */
import { vi } from "vitest";
import type { ChatHost } from "../host.ts";

export const WORDS = {
  exec: { title: "Run a command", subject: "command", effects: "It runs.", covers: "exactly this command" },
};

export function sampleHost(): ChatHost {
  const nothing = async (): Promise<void> => undefined;
  return {
    agent: "Coder",
    mayRun: true,
    mayAdmin: true,
    tools: WORDS,
    retry: vi.fn(nothing),
    answer: vi.fn(nothing),
    answerQuestion: vi.fn(nothing),
    openPreview: vi.fn(),
    resendInFork: vi.fn(nothing),
    regenerateInFork: vi.fn(nothing),
    fork: vi.fn(nothing),
    fileUrl: (path) => `/files/${path}`,
    verify: vi.fn(nothing),
    runAgain: vi.fn(nothing),
    resend: vi.fn(),
    reword: vi.fn(),
    discard: vi.fn(),
    wholeOutput: vi.fn(async () => "all of it"),
    summary: vi.fn(async () => "A summary."),
    undo: vi.fn(nothing),
  };
}
