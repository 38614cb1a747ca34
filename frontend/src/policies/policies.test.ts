import { afterEach, expect, test, vi } from "vitest";
import policies from "./policies.ts";

const PAGE = `
<div id="root"><form data-policy data-preview="/policies/preview/">
  <fieldset class="policy-fields">
    <fieldset data-tool="exec">
      <input type="radio" name="choice:exec" value="default" checked><input type="radio" name="choice:exec" value="allow">
      <span data-verdict class="verdict is-ask">ask</span><span data-why>Asks first by default.</span>
    </fieldset>
    <ol data-rules><li data-rule data-spare><select name="verdict"><option value="ask">Ask</option></select>
      <input name="rule" value=""><button type="button" data-remove>x</button></li></ol>
    <button type="button" data-add>Add</button>
  </fieldset><p data-status></p><a data-discard>Discard</a><button data-review>Review changes</button></form></div>
<form data-simulate><input name="tool"><textarea name="input"></textarea></form><div data-call></div>`;
let stop: () => void = () => undefined;

function page(html = PAGE): void {
  document.body.innerHTML = html;
  stop = policies(document.getElementById("root")!);
}
const find = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
const respondWith = (body: unknown) => vi.fn(async (_url: string, _given?: RequestInit) => Response.json(body));

function choose(value: string): void {
  find<HTMLInputElement>(`[value=${value}]`).checked = true;
  find(`[value=${value}]`).dispatchEvent(new Event("input", { bubbles: true }));
}

afterEach(() => {
  stop();
  vi.unstubAllGlobals();
});

test("a choice shows its effect before it is saved", async () => {
  page();
  const requested = respondWith({
    tools: { exec: { decision: "allow", why: "Allowed by the agent: exec(*)." } },
    lines: ["+ allow exec(*)"],
    risky: ["exec"],
    call: null,
  });
  vi.stubGlobal("fetch", requested);
  choose("allow");

  await vi.waitFor(() => expect(find("[data-verdict]").textContent).toBe("allow"));
  expect(find("[data-verdict]").className).toBe("verdict is-allow");
  expect(find("[data-why]").textContent).toBe("Allowed by the agent: exec(*).");
  expect(find("[data-status]").textContent).toBe("1 unsaved change. Lets exec run without approval.");
  expect(find("[data-tool]").hasAttribute("data-changed")).toBe(true);
  const body = requested.mock.calls[0]![1]!.body as FormData;
  expect(body.get("choice:exec")).toBe("allow");
});

test("a review is offered only while there are changes", async () => {
  page();
  const review = find<HTMLButtonElement>("[data-review]");
  expect(review.disabled).toBe(true);
  expect(find("[data-discard]").hidden).toBe(true);
  vi.stubGlobal("fetch", respondWith({ tools: {}, lines: [], call: null }));
  choose("allow");
  expect(review.disabled).toBe(false);
  await vi.waitFor(() => expect(review.disabled).toBe(true));

  find<HTMLInputElement>("[value=allow]").checked = true;
  stop();
  stop = policies(document.getElementById("root")!);
  expect(review.disabled).toBe(false);
});

test.each([
  ["is unreachable", () => Promise.reject(new TypeError("Failed to fetch")), "Can't reach the server"],
  ["has signed the person out", async () => Response.json({ detail: "x" }, { status: 401 }), "signed out"],
  ["refuses the form", async () => Response.json({ problem: "No such tool." }, { status: 400 }), "No such tool."],
])("a server that %s is not treated as reporting no changes", async (_name, fetched, words) => {
  page();
  vi.stubGlobal("fetch", fetched);
  choose("allow");

  await vi.waitFor(() => expect(find("[data-status]").textContent).toContain(words));
});

test("only the newest answer is shown", async () => {
  page();
  const waiting: ((answer: Response) => void)[] = [];
  vi.stubGlobal("fetch", () => new Promise<Response>((done) => waiting.push(done)));
  const tools = (decision: string) => Response.json({ tools: { exec: { decision, why: "" } } });
  for (let number = 1; number <= 2; number++) {
    choose("allow");
    await vi.waitFor(() => expect(waiting.length).toBe(number));
  }
  waiting[1]!(tools("deny"));
  await vi.waitFor(() => expect(find("[data-verdict]").textContent).toBe("deny"));
  waiting[0]!(tools("allow"));
  await new Promise((done) => setTimeout(done));

  expect(find("[data-verdict]").textContent).toBe("deny");
});

test("a simulated call shows its chain of decisions as text", async () => {
  page();
  const explanation = { decision: "deny", chain: [{ layer: "agent", decision: "deny", rule: "<b>rule</b>" }] };
  vi.stubGlobal("fetch", respondWith({ call: { explanation, sentence: "Denied by the agent." } }));
  find<HTMLFormElement>("[data-simulate]").requestSubmit();

  await vi.waitFor(() => expect(find(".chain").textContent).toContain("<b>rule</b>"));
  expect(document.querySelector("b")).toBeNull();
});

test("rules can be added and removed", () => {
  page();
  expect(document.querySelectorAll("[data-rule]").length).toBe(0);
  find("[data-add]").click();
  find("[data-add]").click();
  expect(document.querySelectorAll("[data-rule]").length).toBe(2);
  find("[data-remove]").click();

  expect(document.querySelectorAll("[data-rule]").length).toBe(1);
  expect(document.activeElement?.getAttribute("name")).toBe("rule");
});

test("a viewer can simulate a call with a disabled form", async () => {
  page(PAGE.replace('class="policy-fields"', 'class="policy-fields" disabled'));
  const requested = respondWith({ call: null });
  vi.stubGlobal("fetch", requested);
  find<HTMLFormElement>("[data-simulate]").requestSubmit();

  await vi.waitFor(() => expect(requested).toHaveBeenCalled());
  expect((requested.mock.calls[0]![1]!.body as FormData).get("choice:exec")).toBe("default");
  expect(find<HTMLFieldSetElement>(".policy-fields").disabled).toBe(true);
});
