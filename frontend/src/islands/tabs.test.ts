import { expect, test, vi } from "vitest";
import { tabs } from "./tabs.ts";

test("the current tab is centred in its row without scrolling the page", () => {
  document.body.innerHTML = `<nav><a href="a/">A</a><a href="b/" aria-current="page">B</a></nav>`;
  const row = document.querySelector("nav")!;
  const open = document.querySelector("[aria-current]")!;
  row.getBoundingClientRect = () => new DOMRect(10, 0, 300, 40);
  open.getBoundingClientRect = () => new DOMRect(600, 0, 100, 40);
  const into = vi.fn();
  open.scrollIntoView = into;
  tabs(row);

  expect(row.scrollLeft).toBe(490);
  expect(into).not.toHaveBeenCalled();
});
