import { expect, test } from "vitest";
import { Caret } from "./streaming.ts";

function marked(html: string): string | undefined {
  const said = document.createElement("div");
  said.innerHTML = html;
  new Caret().move(said);
  const found = said.querySelectorAll("[data-caret]");
  expect(found.length).toBeLessThanOrEqual(1);
  return found[0]?.outerHTML.replace(' data-caret=""', "");
}

test.each([
  ["<p>One.</p><p>Two <b>bold</b></p>", "<p>Two <b>bold</b></p>"],
  ["<p>One.</p><h3>Title</h3>", "<h3>Title</h3>"],
  ["<ul><li>one</li><li>two <code>x</code></li></ul>", "<li>two <code>x</code></li>"],
  ["<ol><li><p>one</p><p>more</p></li></ol>", "<p>more</p>"],
  ["<ul><li>one<ul><li>inner</li></ul></li></ul>", "<li>inner</li>"],
  ['<div class="code-box"><pre><code>x</code></pre></div>', "<code>x</code>"],
])("it stands at the end of %s", (html, where) => expect(marked(html)).toBe(where));

test.each(["", "<table><tbody><tr><td>1</td></tr></tbody></table>", "<p>One.</p><hr>"])(
  "it stands nowhere in %j",
  (html) => expect(marked(html)).toBeUndefined(),
);

test("it moves on, and goes when the answer is whole", () => {
  const said = document.createElement("div");
  said.innerHTML = "<p>One.</p>";
  const caret = new Caret();
  caret.move(said);
  said.insertAdjacentHTML("beforeend", "<p>Two.</p>");
  caret.move(said);
  expect(said.innerHTML).toBe('<p>One.</p><p data-caret="">Two.</p>');
  caret.move(null);
  expect(said.innerHTML).toBe("<p>One.</p><p>Two.</p>");
});
