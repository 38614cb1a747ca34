/** The entry of the chat's own script: a conversation, or the page on which one begins. */
import type { Island } from "../lib/islands.ts";
import { session } from "./session.ts";
import { start } from "./start.ts";

const chat: Island = (root) => (root.querySelector("script[id$=chat-opening]") ? session : start)(root);

export default chat;
