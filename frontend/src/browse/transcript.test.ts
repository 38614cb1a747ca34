import { expect, test } from "vitest";
import transcript from "./transcript.ts";

test("an answer is rendered as Markdown, and nothing in it runs", () => {
  document.body.innerHTML = `<div><div data-markdown></div></div>`;
  const said = document.querySelector<HTMLElement>("[data-markdown]")!;
  said.textContent = `Some **bold** words <img src=x onerror="alert(1)"> [link](javascript:alert(1))`;
  transcript(document.querySelector("div")!)();

  expect(said.querySelector("strong")?.textContent).toBe("bold");
  expect(said.querySelector("img, a[href^=javascript]")).toBeNull();
  expect(said.dataset["rendered"]).toBe("");
});
