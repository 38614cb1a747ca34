// Talks to the AG-UI door with AG-UI's own client, whose verifier checks the order of all events.
// Reads {url, key, threadId, steps} from standard input and prints what each step gave.
import { readFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const { url, key, threadId, steps } = JSON.parse(readFileSync(0, "utf8"));
const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${key}` } });
const done = [];

for (const { say, tools, result, answer } of steps) {
  const events = [];
  const parameters = { tools };
  const last = done.at(-1)?.events.at(-1);
  if (say) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: say });
  if (result) {
    for (const toolCallId of last.outcome.pendingToolCallIds) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId, content: result });
    }
  }
  if (answer) {
    parameters.resume = last.outcome.interrupts.map(({ id }) => ({
      interruptId: id,
      status: "resolved",
      payload: { decision: answer },
    }));
  }
  let error;
  try {
    await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  } catch (caught) {
    error = String(caught);
  }
  done.push({ events, error, messages: structuredClone(agent.messages) });
}

process.stdout.write(JSON.stringify(done));
