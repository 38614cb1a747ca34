import { beforeEach, expect, test } from "vitest";
import { BOOTSTRAP } from "./samples/bootstrap.ts";
import { StatusDisplay } from "./status.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;

beforeEach(() => {
  document.body.innerHTML = `<h1 data-chat-title>New chat</h1><span data-chat-status></span><b data-chat-tokens></b>
    <b data-chat-events></b><div id="chat"><p data-announce></p></div>`;
});

test("it shows the server's label, title and counts", () => {
  const display = new StatusDisplay($("#chat"), BOOTSTRAP, () => undefined);
  expect($("[data-chat-title]").textContent).toBe("New chat");
  const more = { status_lamp: "is-running", status_label: "Sub-agent working", title: "Hello", tokens: "9.4k" };
  display.show({ ...BOOTSTRAP, ...more, last_seq: 12 });

  expect($("[data-chat-status]").className).toBe("state is-running");
  expect($("[data-chat-status]").textContent).toBe("Sub-agent working");
  expect($("[data-chat-title]").textContent).toBe("Hello");
  expect($("[data-chat-tokens]").textContent).toBe("9.4k");
  expect($("[data-chat-events]").textContent).toBe("12");
});

test("changes are announced, also on a page that opens on a busy agent", () => {
  const display = new StatusDisplay($("#chat"), { ...BOOTSTRAP, status: "running" }, () => undefined);
  const announced = (["running", "requires_action", "running", "idle"] as const).map((status) => {
    display.follow(status);
    return $("[data-announce]").textContent;
  });

  expect(announced).toEqual(["Answering", "A tool call needs your approval", "Answering", "Answer finished"]);
});
