/** Follows a sub-agent's session live in the inspector. */
import { button, copyText, h } from "../lib/dom.ts";
import type { Rest } from "../lib/rest.ts";
import type { ChatHost } from "./host.ts";
import { LineList } from "./renderer.ts";
import { SessionClient } from "./session-client.ts";
import type { Child } from "./state.ts";
import { type Bootstrap, visibleItems } from "./transcript.ts";

/** Events shown; its own page has all of them. */
const NEWEST = 100;

interface SubagentPreviewOptions {
  inspector: HTMLElement;
  bootstrap: Bootstrap;
  rest: Rest;
  host: ChatHost;
}

export class SubagentPreview {
  private client: SessionClient | null = null;
  private box: HTMLElement | null = null;
  private wanted = "";
  /** The element that had the focus before. */
  private opener: Element | null = null;
  private readonly options: SubagentPreviewOptions;

  constructor(options: SubagentPreviewOptions) {
    this.options = options;
  }

  async open(child: Child): Promise<void> {
    this.close();
    this.wanted = child.sessionId;
    this.opener = document.activeElement;
    const { bootstrap, rest, inspector } = this.options;
    const api = bootstrap.api.replace(bootstrap.session_id, child.sessionId);
    const { last_seq } = await rest.get<{ last_seq: number }>(api);
    if (this.wanted !== child.sessionId) return;
    const list = h("ol", { class: "lines", "aria-label": "Sub-agent conversation" });
    this.box = this.draw(child, list);
    inspector.prepend(this.box);
    if (inspector.hasAttribute("data-closed")) {
      document.querySelector<HTMLElement>("[data-inspector]")?.click();
    }
    this.follow({ ...readBootstrap(bootstrap, child, api), first_seq: Math.max(1, last_seq - NEWEST + 1) }, list);
    this.box.focus();
    inspector.scrollTop = 0;
  }

  close(): void {
    this.wanted = "";
    this.client?.close();
    this.client = null;
    this.box?.remove();
    this.box = null;
  }

  private leave(): void {
    this.close();
    if (this.opener instanceof HTMLElement) this.opener.focus();
  }

  private draw(child: Child, list: HTMLElement): HTMLElement {
    const title = h("h2", { id: "beside-title", text: child.title || "Sub-agent" });
    const shut = button("Close", () => this.leave(), {
      class: "btn btn-bare btn-square btn-xs",
      icon: "x",
    });
    const head = h("header", { class: "beside-head" }, title, shut);
    const link = h("a", { class: "link-text", href: `/chat/${child.sessionId}/`, text: "Open chat" });
    const facts = { class: "facts-box beside", tabindex: "-1", "aria-labelledby": title.id };
    const box = h("section", facts, head, list, link);
    box.addEventListener("click", (event) => {
      const copy = (event.target as HTMLElement).closest<HTMLElement>("[data-copy-code]");
      const code = copy?.closest(".code-box")?.querySelector("pre")?.textContent;
      if (copy) void copyText(code ?? "", copy);
    });
    // Handle Escape before the page does, where it stops the answer.
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.leave();
    });
    return box;
  }

  private follow(bootstrap: Bootstrap, list: HTMLElement): void {
    // Read-only: approvals are answered in the chat.
    const flow = new LineList(list, { ...this.options.host, agent: bootstrap.agent, mayRun: false });
    let drawing = 0;
    const client = new SessionClient({
      bootstrap: { ...bootstrap, last_seq: bootstrap.first_seq - 1 },
      rest: this.options.rest,
      store: sessionStorage,
      onChange: () => {
        drawing ||= window.requestAnimationFrame(() => {
          drawing = 0;
          if (this.client === client) flow.draw(visibleItems(client.state));
        });
      },
      onLink: () => undefined,
    });
    this.client = client;
  }
}

function readBootstrap(mine: Bootstrap, child: Child, api: string): Bootstrap {
  return {
    ...mine,
    session_id: child.sessionId,
    agent: child.agent || mine.agent,
    title: child.title,
    status: "idle",
    frames: [],
    queue: [],
    tokens: 0,
    api,
  };
}
