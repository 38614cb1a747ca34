import { expect, test } from "vitest";
import { autoSubmit } from "./auto-submit.ts";

test("a changed choice is submitted at once, and the button is hidden", () => {
  document.body.innerHTML = `<form><select><option>a</option><option>b</option></select>
    <button data-fallback>Save</button></form>`;
  const form = document.querySelector("form")!;
  let sent = 0;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sent += 1;
  });

  const cleanUp = autoSubmit(form);
  form.querySelector("select")!.dispatchEvent(new Event("change", { bubbles: true }));
  cleanUp();

  expect(sent).toBe(1);
  expect(form.querySelector<HTMLElement>("[data-fallback]")?.hidden).toBe(true);
});
