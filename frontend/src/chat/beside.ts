/** Another session, followed live in the inspector while it is open there. */
import type { Desk } from "./desk.ts";
import { button, copyText, h } from "../lib/dom.ts";
import { Flow } from "./flow.ts";
import type { Child } from "./items.ts";
import type { Opening } from "./opening.ts";
import type { Rest } from "../lib/rest.ts";
import { shown } from "./shown.ts";
import { Talk } from "./talk.ts";

/** Events of the other session that are shown; its own page has all. */
const NEWEST = 100;

interface BesideOptions {
  inspector: HTMLElement;
  opening: Opening;
  rest: Rest;
  desk: Desk;
}

export class Beside {
  private talk: Talk | null = null;
  private box: HTMLElement | null = null;
  private wanted = "";
  /** What had the focus before. */
  private opener: Element | null = null;
  private readonly options: BesideOptions;

  constructor(options: BesideOptions) {
    this.options = options;
  }

  async open(child: Child): Promise<void> {
    this.close();
    this.wanted = child.sessionId;
    this.opener = document.activeElement;
    const { opening, rest, inspector } = this.options;
    const api = opening.api.replace(opening.session_id, child.sessionId);
    const { last_seq } = await rest.get<{ last_seq: number }>(api);
    if (this.wanted !== child.sessionId) return;
    const list = h("ol", { class: "lines", "aria-label": "Its conversation" });
    this.box = this.draw(child, list);
    inspector.prepend(this.box);
    if (inspector.hasAttribute("data-closed")) {
      document.querySelector<HTMLElement>("[data-inspector]")?.click();
    }
    this.follow({ ...openingOf(opening, child, api), first_seq: Math.max(1, last_seq - NEWEST + 1) }, list);
    this.box.focus();
    inspector.scrollTop = 0;
  }

  close(): void {
    this.wanted = "";
    this.talk?.close();
    this.talk = null;
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
    const link = h("a", { class: "link-text", href: `/chat/${child.sessionId}/`, text: "Open its chat" });
    const facts = { class: "facts-box beside", tabindex: "-1", "aria-labelledby": title.id };
    const box = h("section", facts, head, list, link);
    box.addEventListener("click", (event) => {
      const copy = (event.target as HTMLElement).closest<HTMLElement>("[data-copy-code]");
      const code = copy?.closest(".code-box")?.querySelector("pre")?.textContent;
      if (copy) void copyText(code ?? "", copy);
    });
    // Before the page hears it: there Escape stops the answer.
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.leave();
    });
    return box;
  }

  private follow(opening: Opening, list: HTMLElement): void {
    // One reads along here; questions are answered in the conversation.
    const flow = new Flow(list, { ...this.options.desk, agent: opening.agent, mayRun: false });
    let drawing = 0;
    const talk = new Talk({
      opening: { ...opening, last_seq: opening.first_seq - 1 },
      rest: this.options.rest,
      store: sessionStorage,
      onChange: () => {
        drawing ||= window.requestAnimationFrame(() => {
          drawing = 0;
          if (this.talk === talk) flow.draw(shown(talk.state));
        });
      },
      onLink: () => undefined,
    });
    this.talk = talk;
  }
}

function openingOf(mine: Opening, child: Child, api: string): Opening {
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
