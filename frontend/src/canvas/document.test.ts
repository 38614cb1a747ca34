import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Refused } from "../lib/rest.ts";
import { CanvasDocument, type CanvasServer, type SavedCanvas } from "./document.ts";
import type { CanvasNode, Graph } from "./graph.ts";

function node(id: string, prompt = ""): CanvasNode {
  return { id, type: "agent", name: "", config: { prompt }, position: { x: 0, y: 0 } };
}

/** A server that refuses a save on an old revision, as the real one does. */
class Server implements CanvasServer {
  now: SavedCanvas;
  saves = 0;
  isDown = false;

  constructor(nodes: CanvasNode[]) {
    this.now = { nodes, edges: [], revision: 1, published_revision: null, problems: [], author: null };
  }

  /** Someone else saves. */
  change(nodes: CanvasNode[]): void {
    this.now = { ...this.now, nodes, revision: this.now.revision + 1 };
  }

  read(): Promise<SavedCanvas> {
    return Promise.resolve(structuredClone(this.now));
  }

  save(graph: Graph, revision: number): Promise<SavedCanvas> {
    this.saves += 1;
    if (this.isDown) return Promise.reject(new Error("Can't reach the server."));
    if (revision !== this.now.revision) {
      const { problems: _, ...current } = structuredClone(this.now);
      return Promise.reject(new Refused("Someone else saved first.", 409, "conflict", { current }));
    }
    this.now = { ...this.now, ...structuredClone(graph), revision: revision + 1 };
    return this.read();
  }

  publish(revision: number): Promise<SavedCanvas> {
    this.now = { ...this.now, published_revision: revision };
    return this.read();
  }
}

let server: Server;
let doc: CanvasDocument;

const write = (id: string, prompt: string): void =>
  doc.change("Write", (graph) => ({
    ...graph,
    nodes: graph.nodes.map((one) => (one.id === id ? { ...one, config: { prompt } } : one)),
  }));
const prompts = (nodes: CanvasNode[]): unknown[] => nodes.map((one) => one.config["prompt"]);

beforeEach(() => {
  vi.useFakeTimers();
  server = new Server([node("a", "one"), node("b", "two")]);
  doc = new CanvasDocument(server, structuredClone(server.now), true);
});
afterEach(() => {
  doc.close();
  vi.useRealTimers();
});

describe("a document", () => {
  it("saves a moment after the last change, once", async () => {
    write("a", "x");
    write("a", "xy");
    await vi.advanceTimersByTimeAsync(600);
    expect([server.saves, doc.view.saving, doc.view.revision]).toEqual([1, "saved", 2]);
  });

  it("merges a refused save and saves again", async () => {
    server.change([node("a", "one"), node("b", "theirs")]);
    write("a", "mine");
    await vi.advanceTimersByTimeAsync(600);
    expect(prompts(server.now.nodes)).toEqual(["mine", "theirs"]);
    expect(prompts(doc.view.graph.nodes)).toEqual(["mine", "theirs"]);
  });

  it("takes a revision of someone else while it has changes of its own", async () => {
    write("a", "mine");
    server.change([node("a", "one"), node("b", "two"), node("c", "new")]);
    doc.follow(2, undefined);
    await vi.advanceTimersByTimeAsync(600);
    expect(prompts(server.now.nodes)).toEqual(["mine", "two", "new"]);
  });

  it("undoes only what this person changed", async () => {
    write("a", "mine");
    await vi.advanceTimersByTimeAsync(600);
    server.change([node("a", "mine"), node("b", "theirs")]);
    doc.follow(3, undefined);
    await vi.advanceTimersByTimeAsync(100);
    doc.undo();
    expect(prompts(doc.view.graph.nodes)).toEqual(["one", "theirs"]);
    doc.redo();
    expect(prompts(doc.view.graph.nodes)).toEqual(["mine", "theirs"]);
  });

  it("keeps trying while the server cannot be reached", async () => {
    server.isDown = true;
    write("a", "mine");
    await vi.advanceTimersByTimeAsync(600);
    expect(doc.view.saving).toBe("failed");
    server.isDown = false;
    await vi.advanceTimersByTimeAsync(3_100);
    expect([doc.view.saving, prompts(server.now.nodes)[0]]).toEqual(["saved", "mine"]);
  });

  it("publishes what is shown, and nothing with errors", async () => {
    write("a", "mine");
    const done = doc.publish();
    await vi.advanceTimersByTimeAsync(1_000);
    await done;
    expect([server.now.published_revision, prompts(server.now.nodes)[0]]).toEqual([2, "mine"]);
    server.now.problems = [{ code: "cycle", message: "A cycle.", node: "a", level: "error" }];
    server.change(server.now.nodes);
    doc.follow(3, undefined);
    await vi.advanceTimersByTimeAsync(100);
    await expect(doc.publish()).rejects.toThrow("A cycle.");
  });

  it("changes nothing for a person who may only look", () => {
    const closed = new CanvasDocument(server, structuredClone(server.now), false);
    closed.change("Write", () => ({ nodes: [], edges: [] }));
    expect(closed.view.graph.nodes).toHaveLength(2);
  });
});
