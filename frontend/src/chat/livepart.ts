/** The output of a running call below its line: the newest in sight, unless the reader scrolled up. */
import { h } from "../lib/dom.ts";
import { liveText, type Live } from "./live.ts";

const NEAR = 24;

interface LivePart {
  node: HTMLElement;
  /** Shows what was said so far; null when the call is over or has said nothing. */
  update: (live: Live | null) => void;
}

export function livePart(): LivePart {
  const pre = h("pre", { tabindex: "0", role: "region", "aria-label": "Output so far" });
  const node = h("div", { class: "call-live call-part", hidden: true }, pre);
  let shown: Live | null = null;

  function update(live: Live | null): void {
    if (live === shown) return;
    shown = live;
    const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight <= NEAR;
    pre.textContent = live ? liveText(live) : "";
    node.hidden = !live?.text;
    if (atEnd) pre.scrollTop = pre.scrollHeight;
  }
  return { node, update };
}
