/**
 * Sockets that only ring, one per path and page, however many of its parts listen.
 *
 * A part that comes late is told what rang last, as if it had opened a socket of its own.
 */
import { connect, type Link } from "./link.ts";

type Hear = (text: string) => void;

interface Bell {
  link: Link;
  ears: Set<Hear>;
  last: string | null;
}

const bells = new Map<string, Bell>();

/** Hear what the socket at `path` says, until what this returns is called. */
export function listenTo(path: string, hear: Hear): () => void {
  const bell = bells.get(path) ?? hang(path);
  // A function of its own: the same one may listen twice.
  const ear: Hear = (text) => hear(text);
  bell.ears.add(ear);
  // Not at once: nobody expects to hear before listening has begun.
  queueMicrotask(() => {
    if (bell.last !== null && bell.ears.has(ear)) ear(bell.last);
  });
  return () => {
    if (!bell.ears.delete(ear) || bell.ears.size) return;
    bells.delete(path);
    bell.link.close();
  };
}

function hang(path: string): Bell {
  const ears = new Set<Hear>();
  const link = connect({
    path: () => path,
    onMessage: (text) => {
      if (isPong(text)) return;
      bell.last = text;
      for (const ear of [...ears]) ear(text);
    },
    onState: () => undefined,
  });
  const bell: Bell = { link, ears, last: null };
  bells.set(path, bell);
  return bell;
}

function isPong(text: string): boolean {
  return (JSON.parse(text) as { type?: unknown }).type === "pong";
}
