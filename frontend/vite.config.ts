/** Builds the islands, the styles and the icons into `static/dist`. */
import { defineConfig } from "vitest/config";
import { icons } from "./icons.ts";

export default defineConfig({
  base: "/static/dist/",
  plugins: [icons("icons.json")],
  build: {
    outDir: "../static/dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    // An inlined asset is a data: URL, which the content security policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: "src/main.ts" },
  },
  test: {
    environment: "jsdom",
    pool: "vmThreads",
    include: ["src/**/*.test.ts"],
    // Only ends a test that hangs: a busy machine may take long.
    testTimeout: 120_000,
  },
});
