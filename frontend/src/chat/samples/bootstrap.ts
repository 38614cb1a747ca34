/** The data of an empty chat page, for tests. */
import type { Bootstrap } from "../transcript.ts";

export const BOOTSTRAP: Bootstrap = {
  session_id: "s1",
  agent: "Coder",
  status: "idle",
  title: "",
  first_seq: 1,
  last_seq: 0,
  tokens: 0,
  frames: [],
  queue: [],
  tools: {},
  may_run: true,
  may_admin: true,
  api: "/api/v1/sessions/s1/",
  runs: "/api/v1/runs/",
  approvals: "/api/v1/approvals/",
  executions: "/api/v1/tools/executions/",
  largest_file: 1_000,
  cost: "0",
};
