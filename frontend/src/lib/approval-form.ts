/** Answers approvals through their form, which the server renders in chats and on the approvals page. */
import { requireElement, say } from "./dom.ts";
import type { Json } from "./rest.ts";

/**
 * Send the answer of a submitted form. Its buttons are disabled meanwhile, and a refusal is shown in
 * the form.
 */
export async function submitApproval(event: SubmitEvent, send: (answer: Json) => Promise<unknown>): Promise<void> {
  event.preventDefault();
  const form = event.target as HTMLFormElement;
  const problem = requireElement<HTMLElement>(form, "[data-form-error]");
  const buttons = [...form.querySelectorAll<HTMLButtonElement>("button:not([data-no-default])")];
  problem.hidden = true;
  for (const button of buttons) button.disabled = true;
  try {
    await send(answerIn(form, (event.submitter as HTMLButtonElement | null)?.value ?? "deny"));
  } catch (fault) {
    say(problem, (fault as Error).message);
    problem.hidden = false;
    for (const button of buttons) button.disabled = false;
  }
}

/**
 * Build the request body from the form and the button pressed. Throws if the arguments are not an
 * object.
 */
export function answerIn(form: HTMLFormElement, pressed: string): Json {
  const note = form.querySelector<HTMLInputElement>("[name=note]")?.value.trim() ?? "";
  const denies = pressed === "deny";
  const body: Json = {
    decision: denies ? "deny" : "allow",
    scope: denies ? "once" : pressed,
    note,
  };
  const input = form.querySelector<HTMLTextAreaElement>("[name=input]");
  // Leave out unchanged arguments: the server's copy is more exact than their text.
  if (!denies && input && input.value !== input.defaultValue) body["input"] = objectIn(input);
  return body;
}

function objectIn(field: HTMLTextAreaElement): Json {
  try {
    const read: unknown = JSON.parse(field.value);
    if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Json;
  } catch (fault) {
    field.focus();
    throw new Error(`The arguments aren't valid JSON: ${(fault as Error).message}`);
  }
  field.focus();
  throw new Error("The arguments must be a JSON object.");
}
