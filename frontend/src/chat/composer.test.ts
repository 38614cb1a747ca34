import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { composer, type Composer, storedText } from "./composer.ts";
import type { OnBusy } from "./types.ts";

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
  localStorage.clear();
  document.body.innerHTML = `<form><textarea></textarea>
    <select data-on-busy><option value="followup">After</option><option value="steer">Into</option></select>
    <span data-link hidden></span><button data-stop type="button">Stop</button>
    <button data-send>Send</button></form>`;
});
afterEach(() => vi.unstubAllGlobals());

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

interface Written {
  writing: Composer;
  sent: [string, OnBusy][];
  area: HTMLTextAreaElement;
  stops: () => number;
}

function write(): Written {
  const sent: [string, OnBusy][] = [];
  let stopped = 0;
  const writing = composer({
    form: $<HTMLFormElement>("form"),
    typed: storedText(localStorage, "draft"),
    onSend: (text, onBusy) => sent.push([text, onBusy]),
    onStop: () => (stopped += 1),
    onUp: () => undefined,
  });
  return { writing, sent, area: $<HTMLTextAreaElement>("textarea"), stops: () => stopped };
}

function type(area: HTMLTextAreaElement, text: string): void {
  area.value = text;
  area.dispatchEvent(new Event("input"));
}

function press(area: HTMLElement, key: string, init: KeyboardEventInit = {}): KeyboardEvent {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init });
  area.dispatchEvent(event);
  return event;
}

test("Enter sends, Shift-Enter and an unfinished composition do not, and nothing is not sent", () => {
  const { sent, area } = write();
  press(area, "Enter");
  type(area, "hello");
  press(area, "Enter", { shiftKey: true });
  press(area, "Enter", { isComposing: true });
  expect(sent).toEqual([]);
  press(area, "Enter");

  expect(sent).toEqual([["hello", "followup"]]);
  expect(area.value).toBe("");
});

test("a draft survives a reload and ends with the sending", () => {
  const { area } = write();
  type(area, "half a thou");
  area.value = "";
  const again = write();
  expect(again.area.value).toBe("half a thou");
  press(again.area, "Enter");

  expect(localStorage.getItem("draft")).toBeNull();
});

test("a text that comes back stands before what is typed, and is kept with it", () => {
  const { writing, area } = write();
  writing.addText("refused");
  expect(area.value).toBe("refused");
  type(area, "being typed");
  writing.addText("refused");

  expect(area.value).toBe("refused\n\nbeing typed");
  expect(localStorage.getItem("draft")).toBe("refused\n\nbeing typed");
});

test("while the agent works one may choose when to send, and stop", () => {
  const { writing, sent, area, stops } = write();
  const whenBusy = $<HTMLSelectElement>("[data-on-busy]");
  writing.setBusy(true);
  expect(whenBusy.hidden).toBe(true);
  type(area, "now");
  expect(whenBusy.hidden).toBe(false);
  whenBusy.value = "steer";
  press(area, "Enter");
  expect(sent).toEqual([["now", "steer"]]);
  expect(whenBusy.value).toBe("followup");
  $("[data-stop]").click();
  expect(stops()).toBe(1);
  writing.setBusy(false);

  expect($("[data-stop]").hidden).toBe(true);
});
