/** Loads the styles and mounts every island by the name that templates use in `data-island`. */
import { autoSubmit } from "./islands/auto-submit.ts";
import { copy } from "./islands/copy.ts";
import { dialog } from "./islands/dialog.ts";
import { enterSubmit } from "./islands/enter-submit.ts";
import { filter } from "./islands/filter.ts";
import { inspector } from "./islands/inspector.ts";
import { listKeys } from "./islands/list-keys.ts";
import { liveCount } from "./islands/live-count.ts";
import { menu } from "./islands/menu.ts";
import { palette } from "./islands/palette.ts";
import { preview } from "./islands/preview.ts";
import { revealPassword } from "./islands/reveal-password.ts";
import { shortcuts } from "./islands/shortcuts.ts";
import { tabs } from "./islands/tabs.ts";
import { themeChoice, themeFlip } from "./islands/theme.ts";
import { times } from "./islands/times.ts";
import { workspaceGuard } from "./islands/workspace-guard.ts";
import { lazy, mountIslands } from "./lib/islands.ts";
import "./styles/main.css";

mountIslands(document, {
  approvals: lazy(() => import("./approvals/inbox.ts")),
  "auto-submit": autoSubmit,
  browse: lazy(() => import("./browse/browse.ts")),
  builder: lazy(() => import("./builder/builder.ts")),
  canvas: lazy(() => import("./canvas/canvas.tsx")),
  "chat-list": lazy(() => import("./chat/chat-list.ts")),
  chat: lazy(() => import("./chat/chat.ts")),
  copy,
  dialog,
  "enter-submit": enterSubmit,
  filter,
  inspector,
  "list-keys": listKeys,
  "live-count": liveCount,
  markdown: lazy(() => import("./browse/transcript.ts")),
  memory: lazy(() => import("./memory/memory.ts")),
  menu,
  palette,
  policies: lazy(() => import("./policies/policies.ts")),
  preview,
  replay: lazy(() => import("./browse/replay.ts")),
  "reveal-password": revealPassword,
  shortcuts,
  tabs,
  terminal: lazy(() => import("./terminal/terminal.ts")),
  "theme-choice": themeChoice,
  "theme-flip": themeFlip,
  times,
  workflow: lazy(() => import("./workflows/workflow.ts")),
  workflows: lazy(() => import("./workflows/list.ts")),
  "workspace-guard": workspaceGuard,
});
