/** The one entry: the styles, and every island by the name that templates use. */
import { copy } from "./islands/copy.ts";
import { dialog } from "./islands/dialog.ts";
import { elsewhere } from "./islands/elsewhere.ts";
import { enter } from "./islands/enter.ts";
import { liveCount } from "./islands/live-count.ts";
import { inspector } from "./islands/inspector.ts";
import { menu } from "./islands/menu.ts";
import { narrow } from "./islands/narrow.ts";
import { palette } from "./islands/palette.ts";
import { preview } from "./islands/preview.ts";
import { reveal } from "./islands/reveal.ts";
import { shortcuts } from "./islands/shortcuts.ts";
import { submit } from "./islands/submit.ts";
import { tabs } from "./islands/tabs.ts";
import { themeChoice, themeFlip } from "./islands/theme.ts";
import { times } from "./islands/times.ts";
import { walk } from "./islands/walk.ts";
import { mountIslands } from "./lib/islands.ts";
import { lazy } from "./lib/lazy.ts";
import "./styles/main.css";

mountIslands(document, {
  approvals: lazy(() => import("./approvals/inbox.ts")),
  browse: lazy(() => import("./browse/browse.ts")),
  builder: lazy(() => import("./builder/builder.ts")),
  chat: lazy(() => import("./chat/chat.ts")),
  copy,
  dialog,
  elsewhere,
  enter,
  "live-count": liveCount,
  inspector,
  memory: lazy(() => import("./memory/memory.ts")),
  menu,
  narrow,
  palette,
  policies: lazy(() => import("./policies/policies.ts")),
  preview,
  reading: lazy(() => import("./browse/reading.ts")),
  replay: lazy(() => import("./browse/replay.ts")),
  reveal,
  shortcuts,
  submit,
  tabs,
  terminal: lazy(() => import("./terminal/terminal.ts")),
  "theme-choice": themeChoice,
  "theme-flip": themeFlip,
  workflow: lazy(() => import("./workflows/workflow.ts")),
  workflows: lazy(() => import("./workflows/list.ts")),
  times,
  walk,
});
