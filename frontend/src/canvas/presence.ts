/** Who else has this canvas open, and which node they look at. */
import type { Link } from "../lib/socket.ts";
import { Cell } from "./context.ts";

export interface Peer {
  /** One window of a person. */
  window: string;
  name: string;
  node: string | null;
}

interface PresenceFrame {
  phase: "presence";
  window: string;
  name: string;
  node: string | null;
  /** `hello` asks the others to answer; `bye` says that the window was closed. */
  word: "hello" | "here" | "bye";
}

const REPEAT_MS = 20_000;
const GONE_MS = 50_000;

export class Presence {
  readonly peers: Cell<Peer[]>;
  private readonly window: string;
  private readonly seen = new Map<string, { peer: Peer; at: number }>();
  private readonly timer: number;
  private link: Link | null = null;
  private node: string | null = null;

  constructor(window_: string, peers: Cell<Peer[]>) {
    this.window = window_;
    this.peers = peers;
    this.timer = window.setInterval(() => this.repeat(), REPEAT_MS);
  }

  /** Greet the others; call whenever the socket opens. */
  begin(link: Link): void {
    this.link = link;
    this.say("hello");
  }

  show(node: string | null): void {
    if (node === this.node) return;
    this.node = node;
    this.say("here");
  }

  receive(frame: PresenceFrame): void {
    if (frame.window === this.window) return;
    if (frame.word === "bye") this.seen.delete(frame.window);
    else {
      const peer = { window: frame.window, name: frame.name, node: frame.node };
      this.seen.set(frame.window, { peer, at: Date.now() });
    }
    if (frame.word === "hello") this.say("here");
    this.publish();
  }

  /** Tell the others that this window closes. */
  leave(): void {
    this.say("bye");
  }

  close(): void {
    window.clearInterval(this.timer);
    this.leave();
  }

  private say(word: PresenceFrame["word"]): void {
    this.link?.send({ type: "presence", window: this.window, node: this.node, word });
  }

  private repeat(): void {
    this.say("here");
    const latest = Date.now() - GONE_MS;
    for (const [name, { at }] of this.seen) if (at < latest) this.seen.delete(name);
    this.publish();
  }

  private publish(): void {
    this.peers.set([...this.seen.values()].map(({ peer }) => peer).sort((a, b) => (a.name < b.name ? -1 : 1)));
  }
}
