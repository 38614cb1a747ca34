/** The entry of the script of a terminal's page. */
import { restWith } from "../lib/rest.ts";
import type { Island } from "../lib/islands.ts";
import { attach, type Standing } from "./attach.ts";
import { openScreen } from "./screen.ts";
import { sharing } from "./share.ts";

const WORDS: Record<Standing, [lamp: string, words: string]> = {
  connecting: ["is-waiting", "Connecting"],
  open: ["is-running", "Connected"],
  watching: ["is-running", "Watching"],
  lost: ["is-waiting", "Connection lost"],
  over: ["is-unknown", "Closed"],
  refused: ["is-failed", "Not allowed"],
};
const COPIED_MS = 2_000;

/**
 * Shows a terminal and lets its person type.
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

  function show(standing: Standing, words: string): void {
    const [lamp, said] = WORDS[standing];
    if (status) {
      status.className = `state ${lamp}`;
      status.textContent = said;
    }
    root.dataset["standing"] = standing;
    if (notice) {
      notice.textContent = standing === "over" ? words || "This terminal is over." : noticeFor(standing);
      notice.hidden = notice.textContent === "";
    }
    if (standing === "open") screen.focus();
  }

  const leave = attach(
    screen,
    () => (token ? `${socket}?token=${encodeURIComponent(token)}` : socket),
    { standing: show },
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
    leave();
    screen.dispose();
  };
};

function noticeFor(standing: Standing): string {
  if (standing === "refused") return "You cannot see this terminal, or the link to it is not valid any more.";
  if (standing === "lost") return "The connection is lost. It comes back by itself; the shell goes on meanwhile.";
  return "";
}

async function copyText(button: HTMLElement, text: string): Promise<void> {
  const label = button.querySelector<HTMLElement>("[aria-live]");
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Select, then Ctrl-C";
  }
  if (!label) return;
  label.textContent = said;
  window.setTimeout(() => {
    label.textContent = "Copy";
  }, COPIED_MS);
}

export default terminal;
