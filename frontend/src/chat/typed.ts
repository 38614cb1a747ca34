/** What was typed and not sent yet, kept in this browser. */

export interface Typed {
  read(): string;
  write(text: string): void;
}

/** Under this name. A full or forbidden store costs only what would be kept. */
export function typedIn(store: Storage, name: string): Typed {
  return {
    read: () => store.getItem(name) ?? "",
    write: (text) => {
      try {
        if (text) store.setItem(name, text);
        else store.removeItem(name);
      } catch {
        // Full or forbidden.
      }
    },
  };
}

export const nameOf = (sessionId: string): string => `chat-draft:${sessionId}`;
/** For the page on which a conversation begins: there is no session yet. */
const FIRST = "chat-draft:new";

export const firstTyped = (store: Storage): Typed => typedIn(store, FIRST);

/** The first message is in its session, so nothing waits to be sent any more. */
export function forgetFirst(store: Storage, said: string): void {
  const first = firstTyped(store);
  if (first.read().trim() === said.replaceAll("\r\n", "\n").trim()) first.write("");
}
