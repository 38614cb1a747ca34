import { expect, test, vi } from "vitest";
import { tabs } from "./tabs.ts";

test("the open tab is brought into sight", () => {
  document.body.innerHTML = `<nav><a>A</a><a aria-current="page">B</a></nav>`;
  const seen = vi.fn();
  document.querySelector("[aria-current]")!.scrollIntoView = seen;
  tabs(document.querySelector("nav")!)();

  expect(seen).toHaveBeenCalledOnce();
});
