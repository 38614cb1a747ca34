/** The data and the templates of an empty chat page, for tests. */
import type { Bootstrap, Conversation } from "../types.ts";

export const BOOTSTRAP: Bootstrap = {
  session_id: "s1",
  first_seq: 1,
  last_seq: 0,
  status: "idle",
  status_lamp: "",
  status_label: "Idle",
  run_id: null,
  title: "",
  tokens: "0",
  usage: "",
  queue: [],
  may_run: true,
  may_branch: true,
  ratings: {},
  lines: "/chat/s1/lines/",
  api: "/api/v1/sessions/s1/",
  runs: "/api/v1/runs/",
  approvals: "/api/v1/approvals/",
  executions: "/api/v1/tools/executions/",
  files: "/chat/s1/files/",
  largest_file: 1_000,
};

/** Templates in the shape of `templates/pages/chat/templates.html`. */
export const TEMPLATES = `
  <template data-template="draft"><li class="line is-agent" data-key="" data-version=""><div data-markdown></div><p></p></li></template>
  <template data-template="outgoing"><li class="line is-person" data-key="" data-version="" data-receipt="sending"><ul hidden></ul><div data-text></div>
    <p><span data-while="sending">Sending…</span><span data-while="failed" hidden>Not sent: <span data-reason></span></span>
    <button data-while="failed" data-action="resend" hidden></button><button data-while="failed" data-action="reword" hidden></button>
    <button data-while="failed" data-action="discard" hidden></button></p></li></template>
  <template data-template="file"><li><a><span data-name></span></a></li></template>
  <template data-template="editor"><textarea></textarea><button data-action="cancel-edit"></button><button data-action="send-edit"></button></template>`;

/** A conversation with these lines, of which the page gets the HTML of some. */
export function conversation(keys: string[], html: string, more: Partial<Conversation> = {}): Conversation {
  return { ...BOOTSTRAP, last_seq: 10, keys, html, ...more };
}

/** A line of an agent as the server renders it. */
export function agentLine(key: string, text: string, version = `v-${text}`, seq = 1): string {
  return `<li class="line is-agent" data-key="${key}" data-version="${version}" data-seq="${seq}"><div data-markdown>${text}</div><p><button data-action="copy"></button></p></li>`;
}

/** A line of a person as the server renders it. */
export function personLine(seq: number, text: string, receipt = "Sent"): string {
  return `<li class="line is-person" data-key="message-${seq}" data-version="${text}-${receipt}" data-seq="${seq}"><div class="bubble" data-text>${text}</div><p><span class="receipt">${receipt}</span><button data-action="edit"></button><button data-action="fork" data-at="${seq}"></button></p></li>`;
}
