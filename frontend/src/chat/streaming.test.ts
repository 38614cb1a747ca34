import { beforeEach, expect, test } from "vitest";
import { markdown, render } from "../lib/markdown.ts";
import { StreamingText } from "./streaming.ts";

let root: HTMLElement;
let text: StreamingText;

beforeEach(() => {
  root = document.createElement("div");
  text = new StreamingText(root);
});

function whole(source: string): string {
  const box = document.createElement("div");
  const env = {};
  box.append(render(markdown.parse(source, env), env));
  return tidy(box);
}

/** Line breaks between blocks are not seen, and each block brings its own. */
function tidy(box: HTMLElement): string {
  const copy = box.cloneNode(true) as HTMLElement;
  for (const node of [...copy.childNodes]) if (node.nodeType === Node.TEXT_NODE) node.remove();
  return copy.innerHTML;
}

const SOURCES = [
  "One paragraph only.",
  "One.\n\nTwo with **bold** and `code`.\n\nThree.",
  "# Title\n\nText under it\nover two lines\n\n---\n\nAfter a rule",
  "Setext\n======\n\nand\n\nanother\n---\n\nend",
  "- one\n- two\n  - inner\n\n    still inner\n- three\n\nafter",
  "1. one\n2. two\n\n   with a paragraph\n\n3. three\n\nafter the list",
  "before\n```python\ndef f():\n\n    return 1\n```\nafter\n\n~~~\nopen fence\n\nto the end",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n\nafter",
  "> quote\ncontinued\n\n> another\n\n    indented code\n\n    more of it\n\nend",
  "[docs]: https://ok.example\n\nSee [docs] and again [docs].\n\nLast [docs]",
  "emoji 🚂\n\n👩‍🚀 and 終点\r\n\r\nwindows lines\r\nhere",
  "",
  "\n\n\nleading blank lines\n\n\n\nand many between\n\n",
];

test.each(SOURCES)("a text that grows ends as it would at once: %j", (source) => {
  let seed = 11;
  const chance = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let round = 0; round < 2; round += 1) {
    root.replaceChildren();
    text = new StreamingText(root);
    for (let at = 0; at < source.length; ) {
      at = Math.min(source.length, at + 1 + chance(round === 0 ? 4 : 17));
      text.update(source.slice(0, at));
    }
    expect(tidy(root)).toBe(whole(source));
  }
});

test("a finished block is not rendered again", () => {
  text.update("First.\n\nSecond\n\nTh");
  const first = root.firstElementChild;
  text.update("First.\n\nSecond\n\nThird\n\nFourth");

  expect(root.firstElementChild).toBe(first);
  expect(root.querySelectorAll("p")).toHaveLength(4);
});

test("an open block of code is code before it is closed", () => {
  text.update("```js\nlet a");

  expect(root.querySelector("pre")?.textContent).toBe("let a");
});

test("a text that says something else begins anew", () => {
  text.update("First.\n\nSecond.");
  text.update("Other.");

  expect(root.textContent?.trim()).toBe("Other.");
});

test("the same text again touches nothing", () => {
  text.update("First.\n\nSecond.");
  const nodes = [...root.childNodes];
  text.update("First.\n\nSecond.");

  expect([...root.childNodes]).toEqual(nodes);
});

test("a stored text without the blanks at its end touches nothing", () => {
  text.update("First.\n\nSecond.\n\n");
  const nodes = [...root.childNodes];
  text.update("First.\n\nSecond.");

  expect([...root.childNodes]).toEqual(nodes);
});

test("a burst is drawn in parts and ends as it would at once", () => {
  const source = SOURCES[2]! + "\n\n" + SOURCES[4]! + "\n\n" + SOURCES[7]!;
  text.update("# Ti");
  let turns = 1;
  while (!text.update(source, 2)) turns += 1;

  expect(turns).toBeGreaterThan(2);
  expect(tidy(root)).toBe(whole(source));
});

test("a link that is defined below its use is one in the end", () => {
  const source = "See [the docs][1] and [2].\n\nMore words.\n\n[1]: https://a.example\n[2]: https://b.example\n";
  for (let at = 7; at < source.length; at += 7) text.update(source.slice(0, at));
  text.update(source);
  text.settle();
  const nodes = [...root.childNodes];

  expect(tidy(root)).toBe(whole(source));
  expect(root.querySelectorAll("a")).toHaveLength(2);
  text.settle();
  expect([...root.childNodes]).toEqual(nodes);
});

test("a text whose links are defined above their use is not rendered again", () => {
  const source = "[1]: https://a.example\n\nSee [docs][1].\n\nAnd [again][1].";
  for (let at = 5; at < source.length; at += 5) text.update(source.slice(0, at));
  text.update(source);
  const nodes = [...root.childNodes];
  text.settle();

  expect([...root.childNodes]).toEqual(nodes);
});
