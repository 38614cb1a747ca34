import { expect, test, vi } from "vitest";
import { lazy } from "./lazy.ts";

test("the script is fetched when its island is there, and cleaned up after", async () => {
  const cleanUp = vi.fn();
  const island = vi.fn(() => cleanUp);
  const root = document.createElement("div");
  const stop = lazy(async () => ({ default: island }))(root);
  await vi.waitFor(() => expect(root.dataset["mounted"]).toBe(""));
  expect(island).toHaveBeenCalledWith(root);
  stop();

  expect(cleanUp).toHaveBeenCalledOnce();
});

test("an island that is gone before its script came is not started", async () => {
  const island = vi.fn(() => () => undefined);
  const stop = lazy(async () => ({ default: island }))(document.createElement("div"));
  stop();
  await Promise.resolve();
  await Promise.resolve();

  expect(island).not.toHaveBeenCalled();
});
