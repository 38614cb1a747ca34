/** Builds the islands, the styles and the icons into `static/dist`. */
import { defineConfig } from "vitest/config";
import type { Plugin } from "vite";
import { icons } from "./icons.ts";

/** Keeps only the newest format of KaTeX's fonts, which every supported browser reads. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("katex.css")) return null;
    return code.replaceAll(/, url\([^)]+\.(?:woff|ttf)\) format\("[a-z]+"\)/g, "");
  },
};

export default defineConfig({
  base: "/static/dist/",
  plugins: [icons("icons.json"), woff2Only],
  build: {
    outDir: "../static/dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    // An inlined asset is a data: URL, which the content security policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ["src/main.ts", "src/frame/frame.ts"] },
  },
  test: {
    environment: "jsdom",
    pool: "vmThreads",
    include: ["src/**/*.test.ts"],
    // Only ends a test that hangs: a busy machine may take long.
    testTimeout: 120_000,
  },
});
