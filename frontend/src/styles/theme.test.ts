import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const AA = 4.5;
const AA_SHAPES = 3;
const sheet = readFileSync("src/styles/theme.css", "utf8");

/** Return the colours of one theme by name. */
function colours(theme: "light" | "dark"): Record<string, string> {
  const pairs = [...sheet.matchAll(/--(?:color-)?([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)];
  return Object.fromEntries(pairs.map(([, name, light, dark]) => [name, theme === "light" ? light : dark]));
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

const TEXT = ["base-content", "muted", "accent", "info", "success", "warning", "error", "secondary"];
const BACKGROUNDS = ["base-100", "base-200", "hover", "well"];
const LAMPS = ["running", "waiting", "done", "failed", "unknown"];
const FILLS = ["primary", "secondary", "accent", "neutral", "info", "success", "warning", "error"];

for (const theme of ["light", "dark"] as const) {
  const of = colours(theme);

  test.each(TEXT.flatMap((text) => BACKGROUNDS.map((background) => [text, background] as const)))(
    `in the ${theme} theme %s is readable on %s`,
    (text, background) => {
      expect(contrast(of[text]!, of[background]!)).toBeGreaterThanOrEqual(AA);
    },
  );

  test.each(FILLS)(`in the ${theme} theme the text on a %s fill is readable`, (fill) => {
    expect(contrast(of[fill]!, of[`${fill}-content`]!)).toBeGreaterThanOrEqual(AA);
  });

  test(`in the ${theme} theme the edge of a field is visible`, () => {
    expect(contrast(of["field-edge"]!, of["base-100"]!)).toBeGreaterThanOrEqual(AA_SHAPES);
  });

  test.each(LAMPS)(`in the ${theme} theme the lamp of %s is visible`, (state) => {
    expect(contrast(of[`lamp-${state}`]!, of["base-100"]!)).toBeGreaterThanOrEqual(AA_SHAPES);
  });
}
