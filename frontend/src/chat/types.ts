/** What the server tells a chat page: the data embedded in it, and the answers of `chat/…/lines/`. */

export type Status = "idle" | "running" | "rescheduling" | "requires_action" | "terminated";

export type OnBusy = "followup" | "steer" | "interrupt";

/** A file of the session's workspace attached to a message. */
export interface Attached {
  name: string;
  path: string;
  media_type: string;
  size: number;
}

/** A queued message, or several that are answered together. */
export interface QueuedRun {
  run_id: string;
  text: string;
}

/** Everything that a chat shows besides its lines. */
export interface ConversationState {
  /** The first and the last event that the lines show. */
  first_seq: number;
  last_seq: number;
  status: Status;
  status_lamp: string;
  status_label: string;
  run_id: string | null;
  title: string;
  tokens: string;
  usage: string;
  queue: QueuedRun[];
}

export interface Bootstrap extends ConversationState {
  session_id: string;
  may_run: boolean;
  /** Whether an edited message begins a branch of the chat, not a copy. */
  may_branch: boolean;
  /** The person's ratings, by the seq of the answer. */
  ratings: Record<string, number>;
  /** The address of the lines. */
  lines: string;
  /** REST paths. */
  api: string;
  runs: string;
  approvals: string;
  executions: string;
  /** The address below which images and PDFs of the session are shown. */
  files: string;
  /** Maximum size of a file in bytes. */
  largest_file: number;
}

/** The conversation now: the keys of all lines in order, and the lines that the page lacked. */
export interface Conversation extends ConversationState {
  keys: string[];
  html: string;
}

export function readBootstrap(root: ParentNode): Bootstrap {
  const found = root.querySelector("script[id$=chat-bootstrap]");
  if (!found) throw new Error("The chat page lacks #chat-bootstrap.");
  return JSON.parse(found.textContent ?? "") as Bootstrap;
}

export function isBusy(status: Status): boolean {
  return status === "running" || status === "rescheduling" || status === "requires_action";
}
