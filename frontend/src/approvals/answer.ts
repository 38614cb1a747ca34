/** An answer as REST takes it, and a change as it is announced. */
import type { Json } from "../lib/json.ts";

export interface Change {
  type: string;
  pending: number;
  approval: { title: string; status: string; resolved_by_name: string } | null;
}

/** What the form says, with the button that was pressed. Throws when the arguments are no object. */
export function bodyOf(form: HTMLFormElement, pressed: string): Json {
  const note = form.querySelector<HTMLInputElement>("[name=note]")?.value.trim() ?? "";
  const denies = pressed === "deny";
  const body: Json = {
    decision: denies ? "deny" : "allow",
    scope: denies ? "once" : pressed,
    note,
  };
  const input = form.querySelector<HTMLTextAreaElement>("[name=input]");
  // Unchanged arguments are not sent: the server knows them better than a text of them.
  if (!denies && input && input.value !== input.defaultValue) body["input"] = objectIn(input.value);
  return body;
}

function objectIn(text: string): Json {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (fault) {
    throw new Error(`The arguments are not JSON: ${(fault as Error).message}`);
  }
  if (typeof read !== "object" || read === null || Array.isArray(read)) {
    throw new Error("The arguments must be a JSON object.");
  }
  return read as Json;
}

/** For those who do not see the list change. */
export function changeWords(approval: NonNullable<Change["approval"]>): string {
  if (approval.status === "pending") return `Needs an answer: ${approval.title}`;
  const who = approval.resolved_by_name ? ` by ${approval.resolved_by_name}` : "";
  return `${approval.status}${who}: ${approval.title}`;
}
