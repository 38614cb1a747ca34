/** Entry of the replay page: a slider, step buttons and playback, one event at a time. */
import type { Island } from "../lib/islands.ts";
import { fetchPart, isAbort } from "../lib/pages.ts";

const STEP_MS = 900;

/**
 * @example
 * <div data-island="replay" data-url="/sessions/1/replay/"><a data-step="1">…</a><button data-play>…</button>
 *   <input type="range" data-slider><output data-at></output><div data-moment>…</div></div>
 */
const replay: Island = (root) => {
  const slider = root.querySelector<HTMLInputElement>("[data-slider]");
  const box = root.querySelector<HTMLElement>("[data-moment]");
  const play = root.querySelector<HTMLButtonElement>("[data-play]");
  const at = root.querySelector<HTMLElement>("[data-at]");
  if (!slider || !box || !play || !at) throw new Error("replay needs its parts.");
  const last = Number(slider.max);
  let current = Number(slider.value);
  let request: AbortController | undefined;
  let timer: number | undefined;

  async function show(seq: number): Promise<void> {
    const wanted = Math.max(1, Math.min(last, seq));
    current = wanted;
    request?.abort();
    request = new AbortController();
    slider!.value = String(wanted);
    at!.textContent = `${wanted} of ${last}`;
    const address = `${root.dataset["url"]}?at=${wanted}`;
    try {
      const headers = { "X-Part": "moment" };
      const part = await fetchPart(address, { signal: request.signal, headers });
      box!.replaceChildren(...part.body.childNodes);
      box!.dispatchEvent(new Event("times-shown", { bubbles: true }));
      scrollToEnd();
      updateLinks(wanted);
      history.replaceState(null, "", `?at=${wanted}`);
    } catch (fault) {
      if (!isAbort(fault)) location.assign(address);
    }
  }

  /** Update the plain links and the fork form to the current event. */
  function updateLinks(seq: number): void {
    const fork = root.querySelector<HTMLInputElement>("[data-fork]");
    if (fork) fork.value = String(seq);
    for (const step of root.querySelectorAll<HTMLAnchorElement>("[data-step]")) {
      const next = Math.max(1, Math.min(last, seq + Number(step.dataset["step"])));
      step.href = `?at=${next}`;
    }
    if (seq >= last) pause();
  }

  function scrollToEnd(): void {
    const said = box!.querySelector<HTMLElement>(".moment-lines");
    if (said) said.scrollTop = said.scrollHeight;
  }

  function pause(): void {
    window.clearTimeout(timer);
    timer = undefined;
    showPlaying(false);
  }
  function start(): void {
    showPlaying(true);
    const next = async (): Promise<void> => {
      await show(current + 1);
      if (timer !== undefined) timer = window.setTimeout(() => void next(), STEP_MS);
    };
    // Playback restarts at the end.
    if (current >= last) current = 0;
    timer = window.setTimeout(() => void next(), 0);
  }
  function showPlaying(playing: boolean): void {
    play!.ariaPressed = String(playing);
    play!.ariaLabel = playing ? "Pause" : "Play";
    for (const sign of play!.querySelectorAll<HTMLElement>("[data-when]")) {
      sign.hidden = (sign.dataset["when"] === "playing") !== playing;
    }
  }
  const toggle = (): void => (timer === undefined ? start() : pause());
  const step = (by: number): void => {
    pause();
    void show(current + by);
  };

  const onClick = (event: MouseEvent): void => {
    const target = event.target as Element;
    const link = target.closest<HTMLElement>("[data-step]");
    if (link && event.button === 0 && !event.metaKey && !event.ctrlKey) {
      event.preventDefault();
      step(Number(link.dataset["step"]));
    } else if (target.closest("[data-play]")) toggle();
  };
  const onSlide = (): void => {
    pause();
    void show(Number(slider.value));
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
    // The focused slider handles the arrow keys itself.
    if (event.target instanceof Element && event.target.matches("input, textarea, select, pre")) return;
    if (document.querySelector("dialog[open]")) return;
    const by = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[event.key];
    if (by) step(by);
    else if (event.key === "p") toggle();
    else return;
    event.preventDefault();
  };

  scrollToEnd();
  root.addEventListener("click", onClick);
  slider.addEventListener("input", onSlide);
  document.addEventListener("keydown", onKey);
  return () => {
    pause();
    request?.abort();
    root.removeEventListener("click", onClick);
    slider.removeEventListener("input", onSlide);
    document.removeEventListener("keydown", onKey);
  };
};

export default replay;
