/** What the parts of the page may ask of the whole. */
import type { ToolWords } from "./calls.ts";
import type { Json } from "../lib/json.ts";
import type { AgentItem, Child, UserItem } from "./items.ts";

/** A yes or no to a call, as it is sent. */
export interface Said {
  decision: "allow" | "deny";
  scope: "once" | "session" | "always";
  note: string;
  /** Other arguments than those that were asked for. */
  input?: Json;
}

export interface Desk {
  agent: string;
  mayRun: boolean;
  /** Whether this person may write rules: allow a call always. */
  mayAdmin: boolean;
  tools: Record<string, ToolWords>;
  /** Queue a failed run again. */
  retry(runId: string): Promise<void>;
  /** Let a waiting call run, or not. Rejects with what is in the way. */
  answer(callId: string, said: Said): Promise<void>;
  /** The same for a call of a session below this one. */
  answerQuestion(approvalId: string, said: Said): Promise<void>;
  /** Show another session beside this one. */
  lookInto(child: Child): void;
  /** Send a message again that was refused. */
  resend(id: string): void;
  /** Copy the conversation before a message, and say this there instead. */
  sayInstead(item: UserItem, text: string): Promise<unknown>;
  /** Copy the conversation before the question of an answer, and ask it again there. */
  answerAgain(item: AgentItem): Promise<unknown>;
  /** Copy the conversation up to and with this event. */
  fork(seq: number): Promise<unknown>;
  /** Where a file of this session is downloaded. */
  fileUrl(path: string): string;
  /** Say whether a call of unknown outcome took effect. */
  verify(callId: string, tookEffect: boolean): Promise<void>;
  /** Have a call of unknown outcome run again. */
  runAgain(callId: string): Promise<void>;
  /** Put a refused message back into the composer. */
  reword(id: string, item: UserItem): void;
  /** Let go of a refused message. */
  discard(id: string): void;
  /** All of a result of which the page holds the beginning. */
  wholeOutput(seq: number): Promise<string>;
  /** What a snapshot says in place of the messages before it. */
  summary(snapshotId: string): Promise<string>;
  /** Put back the messages that a snapshot stands for. */
  undo(snapshotId: string): Promise<void>;
}
