/** Takes over one server-rendered element. Returns its clean-up. */
export type Island = (root: HTMLElement) => () => void;

/** Starts the named island on every element with `data-island="name"` under `scope`. */
export function mountIslands(scope: ParentNode, islands: Record<string, Island>): () => void {
  const cleanUps: (() => void)[] = [];
  for (const root of scope.querySelectorAll<HTMLElement>("[data-island]")) {
    const island = islands[root.dataset["island"] ?? ""];
    if (!island) throw new Error(`No island is named "${root.dataset["island"]}".`);
    cleanUps.push(island(root));
  }
  return () => {
    for (const cleanUp of cleanUps) cleanUp();
  };
}
