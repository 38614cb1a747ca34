/** What the parts of the page may ask of the whole. */
import type { ToolWords } from "./calls.ts";
import type { Json } from "./frames.ts";

export interface Desk {
  agent: string;
  mayRun: boolean;
  tools: Record<string, ToolWords>;
  /** Queue a failed run again. */
  retry(runId: string): Promise<void>;
  /** Let a waiting call run, or not. Rejects with what is in the way. */
  answer(callId: string, decision: "allow" | "deny", note: string, input?: Json): Promise<void>;
  /** Send a message again that was refused. */
  resend(id: string): void;
  /** Put a refused message back into the composer. */
  reword(id: string, text: string): void;
  /** All of a result of which the page holds the beginning. */
  wholeOutput(seq: number): Promise<string>;
}
