/** The operations and permissions that the chat page offers to its parts. */
import type { Json } from "../lib/rest.ts";
import type { ToolWords } from "./calls.ts";
import type { AgentItem, Child, UserItem } from "./state.ts";

/** An answer to an approval, as it is sent. */
export interface Said {
  decision: "allow" | "deny";
  scope: "once" | "session" | "always";
  note: string;
  /** Edited arguments. */
  input?: Json;
}

export interface ChatHost {
  agent: string;
  mayRun: boolean;
  /** Whether this person may allow a call always, which writes a policy rule. */
  mayAdmin: boolean;
  tools: Record<string, ToolWords>;
  /** Retry a failed run. */
  retry(runId: string): Promise<void>;
  /** Answer an approval. Rejects with the reason on failure. */
  answer(callId: string, said: Said): Promise<void>;
  /** Answer an approval of a sub-agent. */
  answerQuestion(approvalId: string, said: Said): Promise<void>;
  /** Open a sub-agent in the inspector. */
  openPreview(child: Child): void;
  /** Resend a failed message. */
  resend(id: string): void;
  /** Fork before a message and send this text instead. */
  resendInFork(item: UserItem, text: string): Promise<unknown>;
  /** Fork before the question of an answer and ask it again. */
  regenerateInFork(item: AgentItem): Promise<unknown>;
  /** Fork after this event. */
  fork(seq: number): Promise<unknown>;
  /** Return the download URL of a file. */
  fileUrl(path: string): string;
  /** Record whether a call with an unknown outcome took effect. */
  verify(callId: string, tookEffect: boolean): Promise<void>;
  /** Run a call with an unknown outcome again. */
  runAgain(callId: string): Promise<void>;
  /** Move a failed message back into the composer. */
  reword(id: string, item: UserItem): void;
  /** Drop a failed message. */
  discard(id: string): void;
  /** Fetch the full output of a truncated result. */
  wholeOutput(seq: number): Promise<string>;
  /** Fetch the summary of a compaction. */
  summary(snapshotId: string): Promise<string>;
  /** Undo a compaction. */
  undo(snapshotId: string): Promise<void>;
}
