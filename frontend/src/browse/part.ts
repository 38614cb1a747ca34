/** Fetches a piece of a page that our own server wrote, and escaped, as elements. */
export async function fetchPart(
  url: string,
  options: { signal?: AbortSignal; headers?: Record<string, string> } = {},
): Promise<Document> {
  const answer = await fetch(url, { credentials: "same-origin", ...options });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

export function isAbort(fault: unknown): boolean {
  return fault instanceof DOMException && fault.name === "AbortError";
}
