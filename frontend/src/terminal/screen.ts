/** The screen: xterm, fitted to its box, in the page's colours. */
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { shownTheme, watchTheme } from "../lib/theme.ts";
import type { Screen } from "./attach.ts";
import "@xterm/xterm/css/xterm.css";

const DARK: ITheme = {
  background: "#111113",
  foreground: "#ececef",
  cursor: "#ff8b2c",
  cursorAccent: "#111113",
  selectionBackground: "#3f4a63",
  black: "#2b2b30",
  brightBlack: "#8b8b96",
};
const LIGHT: ITheme = {
  background: "#ffffff",
  foreground: "#1c1c20",
  cursor: "#a9480a",
  cursorAccent: "#ffffff",
  selectionBackground: "#cfe0ff",
  black: "#1c1c20",
  red: "#b02020",
  green: "#12692f",
  yellow: "#7a5000",
  blue: "#1c5fd0",
  magenta: "#7038d8",
  cyan: "#0b6a75",
  white: "#5f5f68",
  brightBlack: "#5f5f68",
  brightRed: "#c42b2b",
  brightGreen: "#167a3e",
  brightYellow: "#8a5a00",
  brightBlue: "#2f74e6",
  brightMagenta: "#8250df",
  brightCyan: "#0e7f8c",
  brightWhite: "#3a3a41",
};

interface ShownScreen extends Screen {
  /** Return the selection, else the whole scrollback. */
  text(): string;
  type(text: string): void;
  focus(): void;
  dispose(): void;
}

export function openScreen(box: HTMLElement, { readOnly }: { readOnly: boolean }): ShownScreen {
  const encoder = new TextEncoder();
  const term = new Terminal({
    allowProposedApi: false,
    cursorBlink: false,
    disableStdin: readOnly,
    fontFamily: getComputedStyle(box).fontFamily,
    fontSize: 13,
    scrollback: 5_000,
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.open(box);
  const unwatch = watchTheme(() => {
    term.options.theme = shownTheme() === "dark" ? DARK : LIGHT;
  });
  const observer = new ResizeObserver(() => {
    if (!readOnly) fit.fit();
  });
  observer.observe(box);

  return {
    size: () => ({ cols: term.cols, rows: term.rows }),
    write: (bytes, done) => term.write(bytes, done),
    reset: () => term.reset(),
    resize: ({ cols, rows }) => term.resize(cols, rows),
    fit: () => fit.fit(),
    onType: (listener) => {
      term.onData((text) => listener(encoder.encode(text)));
      term.onBinary((text) => listener(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    },
    onResize: (listener) => term.onResize(({ cols, rows }) => listener({ cols, rows })),
    text: () => term.getSelection() || textOf(term),
    type: (text) => term.input(text),
    focus: () => term.focus(),
    dispose: () => {
      observer.disconnect();
      unwatch();
      term.dispose();
    },
  };
}

function textOf(term: Terminal): string {
  const buffer = term.buffer.active;
  const lines: string[] = [];
  for (let row = 0; row < buffer.length; row += 1) {
    const line = buffer.getLine(row);
    const text = line?.translateToString(true) ?? "";
    if (line?.isWrapped && lines.length) lines[lines.length - 1] += text;
    else lines.push(text);
  }
  return lines.join("\n").trimEnd();
}
