import { afterEach, expect, test, vi } from "vitest";
import { fetchPart, NotShown } from "./pages.ts";

afterEach(() => vi.unstubAllGlobals());

test("a piece of a page comes as elements", async () => {
  vi.stubGlobal("fetch", async () => new Response("<h2>Preview</h2>"));

  expect((await fetchPart("/x/")).querySelector("h2")?.textContent).toBe("Preview");
});

test("whoever is signed out is sent to another page, which is never shown as the piece", async () => {
  vi.stubGlobal("fetch", async () => ({ ok: true, redirected: true, status: 200, text: async () => "Sign in" }));

  await expect(fetchPart("/x/")).rejects.toBeInstanceOf(NotShown);
});

test("a refusal is none either", async () => {
  vi.stubGlobal("fetch", async () => new Response("Gone", { status: 404 }));

  await expect(fetchPart("/x/")).rejects.toMatchObject({ status: 404 });
});
