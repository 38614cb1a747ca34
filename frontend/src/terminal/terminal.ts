/** Entry of a terminal's page. */
import { clock } from "../lib/dom.ts";
import type { Island } from "../lib/islands.ts";
import { Refused, type Rest, restWith } from "../lib/rest.ts";
import { attach, type TerminalState } from "./attach.ts";
import { openScreen } from "./screen.ts";

const WORDS: Record<TerminalState, [lamp: string, words: string]> = {
  connecting: ["is-waiting", "Connecting"],
  open: ["is-running", "Connected"],
  watching: ["is-running", "Watching"],
  lost: ["is-waiting", "Connection lost"],
  over: ["is-unknown", "Closed"],
  refused: ["is-failed", "Not allowed"],
};
const COPIED_MS = 2_000;

/**
 * Show a terminal and let its owner type.
 *
 * @example
 * <div data-island="terminal" data-socket="/ws/terminals/1/" data-rest="/api/v1/terminals/1/">
 *   <p data-notice hidden></p><div data-screen></div></div>
 */
const terminal: Island = (root) => {
  const { socket, rest, token = "" } = root.dataset;
  const box = root.querySelector<HTMLElement>("[data-screen]");
  if (!socket || !rest || !box) throw new Error("terminal needs data-socket, data-rest and a [data-screen].");
  const notice = root.querySelector<HTMLElement>("[data-notice]");
  const status = document.querySelector<HTMLElement>("[data-term-status]");
  const screen = openScreen(box, { readOnly: token !== "" });

  function show(state: TerminalState, words: string): void {
    const [lamp, said] = WORDS[state];
    if (status) {
      status.className = `state ${lamp}`;
      status.textContent = said;
    }
    root.dataset["standing"] = state;
    if (notice) {
      notice.textContent = state === "over" ? words || "This terminal is closed." : noticeFor(state);
      notice.hidden = notice.textContent === "";
    }
    if (state === "open") screen.focus();
  }

  const detach = attach(
    screen,
    () => (token ? `${socket}?token=${encodeURIComponent(token)}` : socket),
    { onState: show },
  );

  for (const key of root.querySelectorAll<HTMLElement>("[data-send]")) {
    key.addEventListener("click", () => {
      screen.type(JSON.parse(`"${key.dataset["send"] ?? ""}"`) as string);
      screen.focus();
    });
  }
  const copy = document.querySelector<HTMLElement>("[data-term-copy]");
  copy?.addEventListener("click", () => void copyText(copy, screen.text()));
  const sheet = document.querySelector<HTMLElement>("[data-share]");
  const csrf = document.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]");
  if (sheet && csrf) sharing(sheet, restWith(csrf.value), rest);

  return () => {
    detach();
    screen.dispose();
  };
};

function noticeFor(state: TerminalState): string {
  if (state === "refused") return "You don't have access to this terminal, or its link has expired.";
  if (state === "lost") return "Connection lost. Reconnecting. The shell keeps running.";
  return "";
}

async function copyText(button: HTMLElement, text: string): Promise<void> {
  const label = button.querySelector<HTMLElement>("[aria-live]");
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Select and press Ctrl+C";
  }
  if (!label) return;
  label.textContent = said;
  window.setTimeout(() => {
    label.textContent = "Copy";
  }, COPIED_MS);
}

export default terminal;

// --- Sharing

interface Shared {
  url: string;
  expires_at: string;
}

/**
 * @example
 * <dialog data-share><form><select name="minutes">…</select><button>Create link</button></form>
 *   <div data-shared hidden><code data-link></code><p data-until></p><button data-unshare></button></div>
 *   <p data-share-problem hidden></p></dialog>
 */
export function sharing(dialog: HTMLElement, rest: Rest, path: string): void {
  const form = dialog.querySelector<HTMLFormElement>("form[data-share-form]");
  const result = dialog.querySelector<HTMLElement>("[data-shared]");
  const link = dialog.querySelector<HTMLElement>("[data-link]");
  const until = dialog.querySelector<HTMLElement>("[data-until]");
  const problem = dialog.querySelector<HTMLElement>("[data-share-problem]");
  if (!form || !result || !link || !until || !problem) throw new Error("The share sheet lacks a part.");

  async function attempt(work: () => Promise<void>): Promise<void> {
    problem!.hidden = true;
    try {
      await work();
    } catch (fault) {
      problem!.textContent = fault instanceof Refused ? fault.message : "Can't reach the server.";
      problem!.hidden = false;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const minutes = Number(new FormData(form).get("minutes"));
    void attempt(async () => {
      const shared = await rest.post<Shared>(`${path}share/`, { minutes });
      link.textContent = shared.url;
      until.textContent = `Works until ${clock(new Date(shared.expires_at))}. Earlier links no longer work.`;
      result.hidden = false;
    });
  });
  dialog.querySelector("[data-unshare]")?.addEventListener("click", () => {
    void attempt(async () => {
      await rest.remove(`${path}share/`);
      link.textContent = "";
      result.hidden = true;
    });
  });
}
