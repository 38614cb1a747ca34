import { describe, expect, it } from "vitest";
import { type CanvasNode, clipOf, compare, type Graph, layOut, merge, paste, readClip } from "./graph.ts";

function node(id: string, config: Record<string, unknown> = {}, x = 0): CanvasNode {
  return { id, type: "agent", name: "", config, position: { x, y: 0 } };
}

function graph(nodes: CanvasNode[], ...lines: string[]): Graph {
  const edges = lines.map((line) => {
    const [source = "", target = ""] = line.split(">");
    return { source, target, handle: "", label: "" };
  });
  return { nodes, edges };
}

const BASE = graph([node("a", { prompt: "old" }), node("b")], "a>b");

describe("merge", () => {
  it("keeps changes of different fields by both sides", () => {
    const mine = graph([node("a", { prompt: "mine" }), node("b")], "a>b");
    const theirs = graph([node("a", { prompt: "old" }, 50), node("b"), node("c")], "a>b", "b>c");
    const { graph: merged, clashes } = merge(BASE, mine, theirs);
    expect(merged.nodes[0]).toMatchObject({ config: { prompt: "mine" }, position: { x: 50 } });
    expect(merged.nodes.map((one) => one.id)).toEqual(["a", "b", "c"]);
    expect(merged.edges).toHaveLength(2);
    expect(clashes).toEqual([]);
  });

  it("keeps mine and reports theirs where both changed one field", () => {
    const mine = graph([node("a", { prompt: "mine" }), node("b")], "a>b");
    const theirs = graph([node("a", { prompt: "theirs" }), node("b")], "a>b");
    const { graph: merged, clashes } = merge(BASE, mine, theirs);
    expect(merged.nodes[0]?.config).toEqual({ prompt: "mine" });
    expect(clashes).toEqual([{ node: "a", field: "prompt", mine: "mine", theirs: "theirs" }]);
  });

  it("keeps a node that one side deleted and the other changed", () => {
    const mine = graph([node("a", { prompt: "old" })]);
    const theirs = graph([node("a", { prompt: "old" }), node("b", { prompt: "new" })], "a>b");
    expect(merge(BASE, mine, theirs).graph.nodes.map((one) => one.id)).toEqual(["a", "b"]);
  });

  it("deletes what one side deleted, with the edges that would lead nowhere", () => {
    const mine = graph([node("a", { prompt: "old" })]);
    const theirs = graph([node("a", { prompt: "old" }), node("b"), node("c")], "a>b", "b>c");
    const { graph: merged } = merge(BASE, mine, theirs);
    expect(merged.nodes.map((one) => one.id)).toEqual(["a", "c"]);
    expect(merged.edges).toEqual([]);
  });

  it("takes a pin that the other side set", () => {
    const theirs = graph([{ ...node("a", { prompt: "old" }), pin: { output: 1 } }, node("b")], "a>b");
    expect(merge(BASE, BASE, theirs).graph.nodes[0]?.pin).toEqual({ output: 1 });
  });
});

describe("paste", () => {
  it("gives copies new ids, also in the references between them", () => {
    const from = graph([node("a"), node("b", { prompt: "{{nodes.a.output}} {{nodes.z.output}}" })], "a>b");
    const { graph: whole, ids } = paste(from, clipOf(from, new Set(["a", "b"])), { x: 10, y: 0 });
    expect(ids).toEqual(["a_2", "b_2"]);
    expect(whole.nodes[3]?.config["prompt"]).toBe("{{nodes.a_2.output}} {{nodes.z.output}}");
    expect(whole.edges[1]).toMatchObject({ source: "a_2", target: "b_2" });
  });

  it("ignores what is not a clip", () => {
    for (const text of ["", "hello", "{}", '{"switchyard":"canvas","nodes":[1],"edges":[]}']) {
      expect(readClip(text)).toBeNull();
    }
  });
});

describe("layOut", () => {
  it("puts each node to the right of all that lead to it, also around a cycle", () => {
    const drawn = layOut(graph([node("c"), node("a"), node("b")], "a>b", "b>c", "a>c", "c>b"));
    const x = new Map(drawn.nodes.map((one) => [one.id, one.position.x]));
    expect((x.get("a") ?? 0) < (x.get("b") ?? 0)).toBe(true);
    expect(new Set(drawn.nodes.map((one) => `${one.position.x},${one.position.y}`)).size).toBe(3);
  });
});

describe("compare", () => {
  it("says what was added, removed, moved, connected and changed", () => {
    const after = graph([node("a", { prompt: "new" }, 5), node("c")], "a>c");
    const found = compare(BASE, after);
    expect(found.added.map((one) => one.id)).toEqual(["c"]);
    expect(found.removed.map((one) => one.id)).toEqual(["b"]);
    expect(found.moved).toBe(1);
    expect(found.changed[0]?.fields).toEqual([{ name: "prompt", before: "old", after: "new" }]);
    expect([found.edgesAdded.length, found.edgesRemoved.length]).toEqual([1, 1]);
  });
});
