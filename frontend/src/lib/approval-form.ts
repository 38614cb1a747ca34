/** Answers approvals through their form, which the server renders in chats and on the approvals page. */
import { requireElement, say } from "./dom.ts";
import { refusalOf, type Json } from "./rest.ts";

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
    const pressed = (event.submitter as HTMLButtonElement | null)?.value ?? "deny";
    const answer = answerIn(form, pressed);
    if (pressed === "answer") answer["values"] = await valuesIn(form);
    await send(answer);
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
  if (pressed === "answer") return { decision: "answer" };
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

/** Read the fields of a question's form. Files are uploaded first; their value is their path. */
export async function valuesIn(form: HTMLFormElement): Promise<Json> {
  const values: Json = {};
  for (const field of form.querySelectorAll<HTMLElement>("[data-field]")) {
    const name = field.dataset["field"] ?? "";
    const inputs = [...field.querySelectorAll<HTMLInputElement>("input, textarea")];
    const [first] = inputs;
    const chosen = inputs.filter((input) => input.checked).map((input) => input.value);
    if (field.dataset["kind"] === "several") values[name] = chosen;
    else if (field.dataset["kind"] === "choice") values[name] = chosen[0] ?? null;
    else if (first?.files) values[name] = first.files[0] ? await upload(first, first.files[0], form) : null;
    else values[name] = first?.value || null;
  }
  return values;
}

async function upload(input: HTMLInputElement, file: File, form: HTMLFormElement): Promise<string> {
  const body = new FormData();
  body.set("file", file);
  body.set("path", `uploads/${file.name}`);
  const token = form.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
  const answer = await fetch(input.dataset["upload"] ?? "", { method: "POST", body, headers: { "X-CSRFToken": token } });
  if (!answer.ok) throw refusalOf(answer.status, await answer.text());
  return ((await answer.json()) as { path: string }).path;
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
