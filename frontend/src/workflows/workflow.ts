/** The entry of the script of a workflow's page: keeps what the server wrote up to date. */
import { connect } from "../lib/link.ts";
import type { Island } from "../lib/islands.ts";
import { isCommand } from "../lib/keys.ts";
import { lookAt } from "../lib/look.ts";
import { pressInCard } from "../lib/press.ts";
import { announcement, replaceBody } from "./body.ts";

/**
 * Hears every frame of the workflow and asks the server for the page's body again. The keys that
 * answer an agent's question answer a workflow's.
 *
 * @example
 * <div data-island="workflow" data-socket="/ws/workflows/1/"><div data-body data-seq="4">…</div></div>
 */
const workflow: Island = (root) => {
  const { socket } = root.dataset;
  const first = root.querySelector<HTMLElement>("[data-body]");
  if (!socket || !first) throw new Error("workflow needs data-socket and a [data-body].");
  const lost = root.querySelector<HTMLElement>("[data-lost]");
  const live = root.querySelector<HTMLElement>("[data-announce]");
  let cursor = Number(first.dataset["seq"] ?? 0);

  const looking = lookAt(
    () => `${location.pathname}?part=body`,
    (page) => {
      const body = replaceBody(root, page);
      root.dispatchEvent(new Event("times-shown", { bubbles: true }));
      if (live && body) live.textContent = announcement(live.textContent ?? "", body);
    },
  );
  const link = connect({
    path: () => `${socket}?after=${cursor}`,
    onMessage: (text) => {
      const { seq } = JSON.parse(text) as { seq?: number | null };
      if (!seq) return;
      cursor = seq;
      looking.soon();
    },
    onState: (state) => {
      if (lost) lost.hidden = state !== "lost";
      if (state === "open") looking.soon();
    },
  });

  const onKey = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (isCommand(event, "enter")) pressInCard(root, "[data-approve]", event);
    else if (isCommand(event, "backspace")) pressInCard(root, "[data-deny]", event);
  };
  document.addEventListener("keydown", onKey);

  return () => {
    document.removeEventListener("keydown", onKey);
    looking.stop();
    link.close();
  };
};

export default workflow;
