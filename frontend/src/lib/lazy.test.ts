import { expect, test, vi } from "vitest";
import { lazy } from "./islands.ts";

test("an island's script is loaded when the island is mounted, and cleaned up later", async () => {
  const cleanUp = vi.fn();
  const island = vi.fn(() => cleanUp);
  const root = document.createElement("div");
  const stop = lazy(async () => ({ default: island }))(root);
  await vi.waitFor(() => expect(root.dataset["mounted"]).toBe(""));
  expect(island).toHaveBeenCalledWith(root);
  stop();

  expect(cleanUp).toHaveBeenCalledOnce();
});

test("an island removed before its script loads is not started", async () => {
  const island = vi.fn(() => () => undefined);
  const stop = lazy(async () => ({ default: island }))(document.createElement("div"));
  stop();
  await Promise.resolve();
  await Promise.resolve();

  expect(island).not.toHaveBeenCalled();
});

test("a script that fails to load is reported with a reload button", async () => {
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  document.body.innerHTML = "<div></div>";
  lazy(() => Promise.reject(new TypeError("Failed to fetch")))(document.querySelector("div")!);

  await vi.waitFor(() => expect(document.querySelector("[role=alert]")?.textContent).toContain("didn't load"));
  expect(document.querySelector("[role=alert] button")?.textContent).toBe("Reload");
});
