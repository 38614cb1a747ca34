/**
 * Markdown of agents as safe elements.
 *
 * markdown-it writes no HTML of its own input, and DOMPurify lets through only a short list of
 * elements and http(s) and mailto links: no image can carry anything out, no form can ask.
 */
import DOMPurify from "dompurify";
import MarkdownIt, { type Token } from "markdown-it";

const TAGS = [
  ...["a", "b", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "i", "li"],
  ...["ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
];
/** What blocks of one text share: the links that it defines. */
export type Env = Record<string, unknown>;

const LINK = /^(?:https?:\/\/|mailto:)/i;
const ALIGNED = /text-align:(left|center|right)/;

export const markdown = new MarkdownIt({ html: false, linkify: true, typographer: false });
// Only what says that it is a link becomes one: "notes.md" is a file, not a domain of Moldova.
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
markdown.validateLink = (url) => LINK.test(url.trim());

const { rules } = markdown.renderer;
// An image would tell its server that somebody reads this; a link tells the reader.
rules["image"] = (tokens, at) => {
  const { escapeHtml } = markdown.utils;
  const token = tokens[at]!;
  const url = String(token.attrGet("src") ?? "");
  const words = escapeHtml(token.content || url);
  return LINK.test(url) ? `<a href="${escapeHtml(url)}">${words}</a>` : words;
};
// The page has headings of its own above these.
rules["heading_open"] = (tokens, at) => `<${deeper(tokens[at]!)}>`;
rules["heading_close"] = (tokens, at) => `</${deeper(tokens[at]!)}>\n`;
// An inline style would break the content security policy.
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
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** What is left of HTML that markdown-it wrote. */
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

/** Elements of some tokens. */
export function render(tokens: Token[], env: Env): DocumentFragment {
  const fragment = purify(markdown.renderer.render(tokens, markdown.options, env));
  for (const pre of fragment.querySelectorAll("pre")) frame(pre);
  for (const table of fragment.querySelectorAll("table")) scroll(table);
  return fragment;
}

/** A block of code with its language and a button that copies it. */
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
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-bare btn-sm";
  button.dataset["copyCode"] = "";
  button.textContent = "Copy";
  head.append(name, button);
  pre.replaceWith(box);
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  box.append(head, pre);
}

/** A wide table scrolls by itself, not the page. */
function scroll(table: HTMLTableElement): void {
  const box = document.createElement("div");
  box.className = "table-box";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Table");
  table.replaceWith(box);
  box.append(table);
}
