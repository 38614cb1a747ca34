/** The one entry: the styles, and every island by the name that templates use. */
import { copy } from "./islands/copy.ts";
import { dialog } from "./islands/dialog.ts";
import { inspector } from "./islands/inspector.ts";
import { menu } from "./islands/menu.ts";
import { palette } from "./islands/palette.ts";
import { reveal } from "./islands/reveal.ts";
import { shortcuts } from "./islands/shortcuts.ts";
import { submit } from "./islands/submit.ts";
import { themeChoice, themeFlip } from "./islands/theme.ts";
import { mountIslands } from "./lib/islands.ts";
import { lazy } from "./lib/lazy.ts";
import "./styles/main.css";

mountIslands(document, {
  chat: lazy(() => import("./chat/chat.ts")),
  copy,
  dialog,
  inspector,
  menu,
  palette,
  reveal,
  shortcuts,
  submit,
  "theme-choice": themeChoice,
  "theme-flip": themeFlip,
});
