import { afterEach, expect, test, vi } from "vitest";
import { fetchPart, NotShown } from "./pages.ts";

afterEach(() => vi.unstubAllGlobals());

test("part of a page is returned as elements", async () => {
  vi.stubGlobal("fetch", async () => new Response("<h2>Preview</h2>"));

  expect((await fetchPart("/x/")).querySelector("h2")?.textContent).toBe("Preview");
});

test("a redirect to the sign-in page is never shown as the part", async () => {
  vi.stubGlobal("fetch", async () => ({ ok: true, redirected: true, status: 200, text: async () => "Sign in" }));

  await expect(fetchPart("/x/")).rejects.toBeInstanceOf(NotShown);
});

test("an error response is not shown as the part", async () => {
  vi.stubGlobal("fetch", async () => new Response("Gone", { status: 404 }));

  await expect(fetchPart("/x/")).rejects.toMatchObject({ status: 404 });
});
