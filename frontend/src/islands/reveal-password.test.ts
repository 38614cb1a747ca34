import { afterEach, beforeEach, expect, test } from "vitest";
import { revealPassword } from "./reveal-password.ts";

let input: HTMLInputElement;
let button: HTMLButtonElement;
let cleanUp: () => void;

beforeEach(() => {
  document.body.innerHTML = `<form><input type="password" id="p">
    <button type="button" aria-controls="p"><span>Show</span></button></form>`;
  input = document.querySelector("input")!;
  button = document.querySelector("button")!;
  cleanUp = revealPassword(button);
});
afterEach(() => cleanUp());

test("the button shows and hides the password", () => {
  button.click();
  expect([input.type, button.textContent]).toEqual(["text", "Hide"]);
  expect(button.getAttribute("aria-pressed")).toBe("true");
  button.click();
  expect([input.type, button.textContent]).toEqual(["password", "Show"]);
});

test("a shown password is hidden before the form is submitted", () => {
  button.click();
  document.querySelector("form")!.dispatchEvent(new Event("submit", { cancelable: true }));

  expect(input.type).toBe("password");
});
