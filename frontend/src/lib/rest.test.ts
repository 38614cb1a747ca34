import { afterEach, expect, test, vi } from "vitest";
import { Refused, restWith } from "./rest.ts";

const rest = restWith("token");
const answer = (status: number, body = ""): void => {
  vi.stubGlobal("fetch", async () => new Response(body || null, { status }));
};
const caught = async (): Promise<unknown> => rest.post("/x/", {}).catch((one: unknown) => one);

afterEach(() => vi.unstubAllGlobals());

test("a response is parsed, and one without a body is undefined", async () => {
  answer(200, '{"id":"a"}');
  expect(await rest.get("/x/")).toEqual({ id: "a" });
  answer(204);
  expect(await rest.remove("/x/")).toBeUndefined();
});

test("a refusal contains the server's message and code", async () => {
  answer(409, '{"detail":"The session has ended.","code":"session_ended"}');

  expect(await caught()).toMatchObject({
    message: "The session has ended.",
    status: 409,
    code: "session_ended",
  });
});

test.each([
  [401, '{"detail":"Sign in, or send a valid API key.","code":"unauthenticated"}', "Reload the page"],
  [401, "", "Reload the page"],
  [403, '{"detail":"CSRF token incorrect.","code":"csrf_failed"}', "Reload it"],
  [502, "<html>Bad gateway</html>", "Something went wrong (error 502). Try again"],
  [500, "null", "Something went wrong (error 500). Try again"],
])("%i tells the person what to do: %s", async (status, body, words) => {
  answer(status, body);
  const refused = await caught();

  expect(refused).toBeInstanceOf(Refused);
  expect((refused as Refused).message).toContain(words);
});

test("an unreachable server has a readable message", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));

  expect(await caught()).toMatchObject({ message: expect.stringContaining("Can't reach the server") });
  expect(await caught()).not.toBeInstanceOf(Refused);
});

test("a request has a timeout", async () => {
  vi.stubGlobal("fetch", async (_path: string, { signal }: RequestInit) => {
    expect(signal).toBeInstanceOf(AbortSignal);
    return new Response("{}");
  });
  await rest.get("/x/");
});
