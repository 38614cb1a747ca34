import { afterEach, expect, test } from "vitest";
import { times } from "./times.ts";

let cleanUp = (): void => undefined;
afterEach(() => cleanUp());

function shown(html: string): HTMLElement {
  document.body.innerHTML = html;
  cleanUp = times(document.body);
  return document.querySelector("time")!;
}

const AT = "2026-01-31T09:00:00+00:00";

function local(): string {
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" }).format(new Date(AT));
}

test("an exact time is written in the viewer's own time zone", () => {
  const node = shown(`<time data-exact datetime="${AT}">31 Jan 2026, 09:00 UTC</time>`);

  expect(node.textContent).toBe(local());
  expect(node.title).toContain("31 January 2026");
});

test("a relative time keeps its words", () => {
  const node = shown(`<time datetime="${AT}" title="…">5 min ago</time>`);

  expect(node.textContent).toBe("5 min ago");
  expect(node.title).not.toBe("…");
});

test("times that come later are written when their part of the page says so", () => {
  shown(`<p></p>`);
  const part = document.querySelector("p")!;
  part.innerHTML = `<time data-exact datetime="${AT}">…</time>`;
  part.dispatchEvent(new Event("times-shown", { bubbles: true }));

  expect(part.textContent).toBe(local());
});

test("what is no time is left alone", () => {
  expect(shown(`<time datetime="soon" data-exact>soon</time>`).textContent).toBe("soon");
});
