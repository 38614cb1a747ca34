// Talks to the OpenAI door with OpenAI's own client for Node.
// Reads {url, key, model} from standard input and prints the answers of each way to ask.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const { url, key, model } = JSON.parse(readFileSync(0, "utf8"));
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];

const whole = await client.chat.completions.create({ model, messages });
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
}
const response = await client.responses.create({ model, input: "Hello" });
const kinds = [];
for await (const event of await client.responses.create({
  model,
  input: "Again",
  previous_response_id: response.id,
  stream: true,
})) {
  kinds.push(event.type);
}

process.stdout.write(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed,
    response: response.output_text,
    kinds,
  }),
);
