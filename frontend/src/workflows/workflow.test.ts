import { beforeEach, expect, test } from "vitest";
import { announce, replaceBody } from "./workflow.ts";

const step = (n: number, words: string, more = ""): string =>
  `<li id="step-${n}">${words}<details id="out-${n}"><summary>Output</summary></details>${more}</li>`;
const body = (status: string, steps: string, token = "a"): string =>
  `<div data-body data-status="${status}"><section id="flow-head">${status}<form><input type="hidden" name="csrfmiddlewaretoken" value="${token}"><button id="act">Act</button></form></section>` +
  `<section aria-labelledby="steps-title"><ol data-steps>${steps}</ol></section></div>`;

let root: HTMLElement;

beforeEach(() => {
  document.body.innerHTML = `<div id="root">${body("Running", step(0, "draft"))}</div>`;
  root = document.getElementById("root") as HTMLElement;
});

test("a new step is added and the others are kept", () => {
  const first = document.getElementById("step-0");
  replaceBody(root, body("Running", step(0, "draft") + step(1, "approve")));
  expect(document.getElementById("step-0")).toBe(first);
  expect(root.querySelectorAll("li")).toHaveLength(2);
});

test("a changed step is replaced and opened parts stay open", () => {
  document.getElementById("out-0")?.setAttribute("open", "");
  replaceBody(root, body("Complete", step(0, "draft, done")));
  expect(document.getElementById("step-0")?.textContent).toContain("done");
  expect(document.getElementById("out-0")?.hasAttribute("open")).toBe(true);
});

test("a new form token replaces nothing", () => {
  const head = document.getElementById("flow-head");
  replaceBody(root, body("Running", step(0, "draft"), "b"));
  expect(document.getElementById("flow-head")).toBe(head);
});

test("the focus and an unsent note are kept", () => {
  const note = '<input id="note-0" value="">';
  root.innerHTML = body("Running", step(0, "ask", note));
  const field = document.getElementById("note-0") as HTMLInputElement;
  field.value = "looks good";
  field.focus();
  replaceBody(root, body("Needs you", step(0, "ask again", note)));
  const now = document.getElementById("note-0") as HTMLInputElement;
  expect(now.value).toBe("looks good");
  expect(document.activeElement).toBe(now);
});

test("steps that a restart removed are removed", () => {
  replaceBody(root, body("Queued", step(0, "a") + step(1, "b")));
  replaceBody(root, body("Queued", step(0, "a")));
  expect(root.querySelectorAll("li")).toHaveLength(1);
});

test("a response without a body changes nothing", () => {
  expect(replaceBody(root, "<p>Sign in</p>")).toBeNull();
  expect(root.querySelectorAll("li")).toHaveLength(1);
});

test("a status is announced once", () => {
  const live = document.createElement("p");
  announce(live, "Running");
  const first = live.firstChild;
  announce(live, "Running");
  expect(live.firstChild).toBe(first);
  announce(live, "Complete");
  expect(live.textContent).toBe("Complete");
});
