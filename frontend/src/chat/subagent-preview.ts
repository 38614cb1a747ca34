/** Follows a sub-agent's session live in the inspector, without buttons that change anything. */
import { requireElement } from "../lib/dom.ts";
import type { Rest } from "../lib/rest.ts";
import { listenForActions } from "./actions.ts";
import { readingActions } from "./line-actions.ts";
import { SessionClient } from "./session-client.ts";
import { copyTemplate, Transcript } from "./transcript.ts";
import type { Bootstrap, Conversation } from "./types.ts";

interface SubagentPreviewOptions {
  inspector: HTMLElement;
  bootstrap: Bootstrap;
  templates: ParentNode;
  rest: Rest;
  complain: (message: string) => void;
}

export class SubagentPreview {
  private client: SessionClient | null = null;
  private box: HTMLElement | null = null;
  private listening = new AbortController();
  /** The session that was asked for last. */
  private sessionId = "";
  /** The element that had the focus before. */
  private opener: Element | null = null;
  private readonly options: SubagentPreviewOptions;

  constructor(options: SubagentPreviewOptions) {
    this.options = options;
  }

  /** Open the session that a button in its card names. */
  async open(button: HTMLElement): Promise<void> {
    const { session: sessionId = "", linesUrl = "", title = "", chat = "" } = button.dataset;
    this.close();
    this.sessionId = sessionId;
    this.opener = document.activeElement;
    const conversation = await this.options.rest.get<Conversation>(`${linesUrl}?read_only=1`);
    if (this.sessionId !== sessionId) return;
    this.show(title, chat);
    const { bootstrap } = this.options;
    const api = bootstrap.api.replace(bootstrap.session_id, sessionId);
    this.follow({ ...bootstrap, ...conversation, session_id: sessionId, lines: linesUrl, api }, conversation);
    this.box?.focus();
    this.options.inspector.scrollTop = 0;
  }

  close(): void {
    this.sessionId = "";
    this.listening.abort();
    this.client?.close();
    this.client = null;
    this.box?.remove();
    this.box = null;
  }

  private leave(): void {
    this.close();
    if (this.opener instanceof HTMLElement) this.opener.focus();
  }

  private show(title: string, chat: string): void {
    const { inspector, templates } = this.options;
    const copy = copyTemplate(templates, "preview");
    const box = requireElement<HTMLElement>(copy, "section");
    requireElement(box, "[data-title]").textContent = title;
    requireElement<HTMLAnchorElement>(box, "[data-open]").href = chat;
    // Handle Escape before the page does, where it stops the answer.
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.leave();
    });
    inspector.prepend(copy);
    this.box = box;
    if (inspector.hasAttribute("data-closed")) {
      document.querySelector<HTMLElement>("[data-inspector]")?.click();
    }
  }

  private follow(bootstrap: Bootstrap, first: Conversation): void {
    const { rest, templates, complain } = this.options;
    const box = this.box!;
    const list = requireElement<HTMLElement>(box, "[data-lines]");
    const transcript = new Transcript({ list, templates, fileUrl: () => "" });
    transcript.apply(first, []);
    let drawing = 0;
    const draw = (): void => {
      drawing = 0;
      if (this.client === client) transcript.draw(client.state.drafts, [], client.state.outputs);
    };
    const client = new SessionClient({
      bootstrap,
      rest,
      store: sessionStorage,
      versions: () => transcript.versions,
      isReadOnly: true,
      onChange: () => {
        drawing ||= window.requestAnimationFrame(draw);
      },
      onLines: (conversation) => {
        transcript.apply(conversation, client.state.drafts);
        draw();
      },
      onLink: () => undefined,
    });
    this.client = client;
    this.listening = new AbortController();
    const actions = { ...readingActions(client), "close-preview": () => this.leave() };
    listenForActions(box, { actions, complain, signal: this.listening.signal });
  }
}
