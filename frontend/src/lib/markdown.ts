/**
 * Renders agents' Markdown as safe elements.
 *
 * markdown-it passes no HTML through, and DOMPurify allows only a short list of elements and
 * http(s) and mailto links: no image can leak data and no form can ask for it. The one page of the
 * product that an answer can link to is the one where people connect a model.
 */
import DOMPurify from "dompurify";
import { copyText } from "./dom.ts";

import MarkdownIt, { type StateCore, type StateInline, type Token } from "markdown-it";

const TAGS = [
  ...["a", "b", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "i", "li"],
  ...["ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
];
/** Link definitions shared by the blocks of a text. */
export type Env = Record<string, unknown>;

const CONNECT = "/settings/providers/";
const LINK = /^(?:https?:\/\/|mailto:|\/settings\/providers\/$)/i;
const ALIGNED = /text-align:(left|center|right)/;

export const markdown = new MarkdownIt({ html: false, linkify: true, typographer: false });
// Only explicit links become links: "notes.md" is a file, not a domain.
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
markdown.validateLink = (url) => LINK.test(url.trim());

// Formulas are code until `rich/` draws them, so that they can be read without it.
markdown.inline.ruler.before("escape", "math", math);
markdown.core.ruler.push("tasks", tasks);

const { rules } = markdown.renderer;
rules["math"] = (tokens, at) => {
  const { content, markup } = tokens[at]!;
  return `<code class="math${markup === "$" ? "" : " is-block"}">${markdown.utils.escapeHtml(content)}</code>`;
};
// An image would tell its server that it was viewed, so it becomes a link.
rules["image"] = (tokens, at) => {
  const { escapeHtml } = markdown.utils;
  const token = tokens[at]!;
  const url = String(token.attrGet("src") ?? "");
  const words = escapeHtml(token.content || url);
  return LINK.test(url) ? `<a href="${escapeHtml(url)}">${words}</a>` : words;
};
// The page has its own headings above these.
rules["heading_open"] = (tokens, at) => `<${deeper(tokens[at]!)}>`;
rules["heading_close"] = (tokens, at) => `</${deeper(tokens[at]!)}>\n`;
// Inline styles violate the content security policy.
rules["th_open"] = (tokens, at) => cell(tokens[at]!);
rules["td_open"] = (tokens, at) => cell(tokens[at]!);

function deeper(token: Token): string {
  return `h${Math.min(6, Number(token.tag.slice(1)) + 2)}`;
}

function cell(token: Token): string {
  const aligned = ALIGNED.exec(String(token.attrGet("style") ?? ""))?.[1];
  return aligned && aligned !== "left" ? `<${token.tag} class="is-${aligned}">` : `<${token.tag}>`;
}

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!node.hasAttribute("href") || node.getAttribute("href") === CONNECT) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

const FORMULAS: [opening: string, closing: string, markup: string][] = [
  ["$$", "$$", "$$"],
  ["$", "$", "$"],
  ["\\[", "\\]", "$$"],
  ["\\(", "\\)", "$"],
];

/** Parse `$x$`, `$$x$$`, `\(x\)` and `\[x\]`. Prices such as $5 and $10 stay text. */
function math(state: StateInline, silent: boolean): boolean {
  for (const [opening, closing, markup] of FORMULAS) {
    if (!state.src.startsWith(opening, state.pos)) continue;
    const start = state.pos + opening.length;
    const end = state.src.indexOf(closing, start);
    const text = end < 0 ? "" : state.src.slice(start, end);
    if (!text.trim()) continue;
    const isWord = /^\s|\s$/.test(text) || /\d/.test(state.src[end + 1] ?? "");
    if (opening === "$" && isWord) continue;
    if (!silent) {
      const token = state.push("math", "code", 0);
      token.content = text.trim();
      token.markup = markup;
    }
    state.pos = end + closing.length;
    return true;
  }
  return false;
}

/** Show `- [ ]` and `- [x]` as open and done tasks. */
function tasks(state: StateCore): void {
  state.tokens.forEach((token, at) => {
    const found = token.type === "inline" && state.tokens[at - 2]?.type === "list_item_open"
      ? /^\[([ xX])\] /.exec(token.content)
      : null;
    const first = token.children?.[0];
    if (!found || first?.type !== "text") return;
    first.content = `${found[1] === " " ? "☐" : "☑"} ${first.content.slice(4)}`;
    state.tokens[at - 2]!.attrJoin("class", "is-task");
  });
}

/** Sanitize HTML written by markdown-it. */
export function purify(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "start", "class"],
    ALLOWED_URI_REGEXP: LINK,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/** Sanitize code that was coloured: only spans with classes. */
export function purifyCode(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/** Render tokens as elements. */
export function render(tokens: Token[], env: Env): DocumentFragment {
  const fragment = purify(markdown.renderer.render(tokens, markdown.options, env));
  for (const pre of fragment.querySelectorAll("pre")) frame(pre);
  for (const table of fragment.querySelectorAll("table")) scroll(table);
  return fragment;
}

/** Wrap a code block with its language and a copy button. */
function frame(pre: HTMLPreElement): void {
  const code = pre.querySelector("code");
  const language = /language-([\w+#.-]+)/.exec(code?.className ?? "")?.[1] ?? "";
  code?.removeAttribute("class");
  const box = document.createElement("div");
  box.className = "code-box";
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = language || "text";
  const wrap = headButton("Wrap", "wrapCode");
  wrap.setAttribute("aria-pressed", "false");
  wrap.addEventListener("click", () => {
    wrap.setAttribute("aria-pressed", String(box.toggleAttribute("data-wrapped")));
  });
  head.append(name, wrap, headButton("Copy", "copyCode"));
  if (language) box.dataset["language"] = language.toLowerCase();
  pre.replaceWith(box);
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  box.append(head, pre);
}

function headButton(words: string, name: string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-bare btn-sm";
  button.dataset[name] = "";
  button.textContent = words;
  return button;
}

/** Wrap a table so that it scrolls on its own. */
function scroll(table: HTMLTableElement): void {
  const box = document.createElement("div");
  box.className = "table-box";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Table");
  table.replaceWith(box);
  box.append(table);
}

// --- Rendering into an element

/** Render Markdown into an element. */
export function renderMarkdown(box: HTMLElement, text: string): void {
  const env = {};
  box.replaceChildren(render(markdown.parse(text, env), env));
  for (const button of box.querySelectorAll<HTMLElement>("[data-copy-code]")) {
    button.addEventListener("click", () => {
      const code = button.closest(".code-box")?.querySelector("pre");
      void copyText(code?.textContent ?? "", button);
    });
  }
  enrich(box);
}

/** Draw code in colours, formulas and diagrams, with scripts that are loaded when first needed. */
export function enrich(box: HTMLElement): void {
  if (box.querySelector(".code-box[data-language]")) {
    void import("../rich/code.ts").then(({ enrichCode }) => enrichCode(box));
  }
  if (box.querySelector("code.math")) {
    void import("../rich/math.ts").then(({ drawFormulas }) => drawFormulas(box));
  }
}
