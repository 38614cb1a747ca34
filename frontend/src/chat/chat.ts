/** Entry of the chat pages: an open chat, or the page that starts one. */
import type { Island } from "../lib/islands.ts";
import { session } from "./session.ts";
import { start } from "./start.ts";

const chat: Island = (root) => (root.querySelector("script[id$=chat-bootstrap]") ? session : start)(root);

export default chat;
