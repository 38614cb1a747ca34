import { expect, test } from "vitest";
import { mountIslands } from "./islands.ts";

test("each element gets the island it names", () => {
  document.body.innerHTML = `<p data-island="shout">a</p><p>b</p><p data-island="shout">c</p>`;

  mountIslands(document, {
    shout: (root) => {
      root.textContent = (root.textContent ?? "").toUpperCase();
      return () => undefined;
    },
  });

  expect(document.body.textContent).toBe("AbC");
});

test("an unknown island is an error", () => {
  document.body.innerHTML = `<p data-island="nope"></p>`;

  expect(() => mountIslands(document, {})).toThrow('No island is named "nope"');
});

test("cleaning up cleans up every island", () => {
  document.body.innerHTML = `<p data-island="count"></p><p data-island="count"></p>`;
  let alive = 0;

  const cleanUp = mountIslands(document, {
    count: () => {
      alive += 1;
      return () => {
        alive -= 1;
      };
    },
  });
  expect(alive).toBe(2);
  cleanUp();

  expect(alive).toBe(0);
});
