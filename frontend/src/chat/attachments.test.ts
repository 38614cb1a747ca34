import { beforeEach, expect, test, vi } from "vitest";
import { placeFor, type AttachmentTray, attachmentTray, type AttachmentTrayOptions } from "./attachments.ts";
import type { Attached } from "./types.ts";

const $ = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector)!;
let problems: string[];
let removed: string[];

beforeEach(() => {
  document.body.innerHTML = `<form><ul data-files hidden></ul><textarea></textarea>
    <button type="button" data-attach></button><input type="file" data-picker></form>`;
  problems = [];
  removed = [];
});

function trayOf(more: Partial<AttachmentTrayOptions> = {}): AttachmentTray {
  return attachmentTray($("form"), {
    ground: document.body,
    largest: 100,
    onChange: () => undefined,
    onProblem: (words) => problems.push(words),
    remove: (file) => removed.push(file.path),
    ...more,
  })!;
}

const file = (name: string, size = 3): File => new File(["x".repeat(size)], name);
const stored = (name: string): Attached => ({ name, path: `uploads/1/${name}`, media_type: "", size: 3 });

test("a file shows how far it is, then goes with the next message", async () => {
  let arrive: (file: Attached) => void = () => undefined;
  const done = new Promise<Attached>((resolve) => (arrive = resolve));
  const tray = trayOf({
    put: (_file, onShare) => {
      onShare(0.5);
      return { done, stop: () => undefined };
    },
  });
  tray.add([file("a.txt")]);
  expect(tray.isBusy).toBe(true);
  expect($("progress").hidden).toBe(false);
  arrive(stored("a.txt"));
  await vi.waitFor(() => expect(tray.isBusy).toBe(false));

  expect($(".file-name").textContent).toBe("a.txt");
  expect(tray.take()).toEqual([stored("a.txt")]);
  expect($("[data-files]").hidden).toBe(true);
});

test("a file is taken back from the workspace, too", async () => {
  const tray = trayOf({ put: () => ({ done: Promise.resolve(stored("a.txt")), stop: () => undefined }) });
  tray.add([file("a.txt")]);
  await vi.waitFor(() => expect(tray.isBusy).toBe(false));
  $(".file-chip button").click();

  expect(removed).toEqual(["uploads/1/a.txt"]);
  expect(tray.take()).toEqual([]);
});

test("what is too large is not sent, and what fails is said", async () => {
  const put = vi.fn(() => ({ done: Promise.reject(new Error("The disk is full.")), stop: () => undefined }));
  const tray = trayOf({ put });
  tray.add([file("big.bin", 101)]);
  expect(put).not.toHaveBeenCalled();
  tray.add([file("a.txt")]);
  await vi.waitFor(() => expect(problems).toHaveLength(2));

  expect(problems).toEqual([
    "big.bin is too large (101 B). The limit is 100 B.",
    "Couldn't upload a.txt. The disk is full.",
  ]);
  expect(tray.held).toEqual([]);
});

test("files are held where there is no session yet, and two of a name have two places", () => {
  const tray = trayOf();
  tray.add([file("a.txt"), file("a.txt")]);

  expect(tray.isBusy).toBe(false);
  expect(tray.held).toHaveLength(2);
  expect(placeFor("../a.txt")).toMatch(/^uploads\/[0-9a-f]{6}\/\.\._a\.txt$/);
  expect(placeFor("a.txt")).not.toBe(placeFor("a.txt"));
});

test("files of a message that was not sent are there again, and can be taken away", () => {
  const tray = trayOf();
  tray.putBack([stored("a.txt"), stored("b.txt")]);
  expect(tray.isBusy).toBe(false);
  $(".file-chip button").click();

  expect(removed).toEqual(["uploads/1/a.txt"]);
  expect(tray.take()).toEqual([stored("b.txt")]);
});

/** What a program puts on the clipboard, as a browser hands it over. */
function paste(words: Record<string, string>): Event {
  const event = new Event("paste", { bubbles: true, cancelable: true });
  const clipboardData = {
    types: [...Object.keys(words), "Files"],
    files: [file("image.png")],
    getData: (type: string) => words[type] ?? "",
  };
  $("textarea").dispatchEvent(Object.assign(event, { clipboardData }));
  return event;
}

test("text that comes with a picture of itself is pasted as text", () => {
  const tray = trayOf();

  expect(paste({ "text/plain": "A1\tB1", "text/html": "<table></table>" }).defaultPrevented).toBe(false);
  expect(tray.held).toEqual([]);
});

test.each([
  ["a screenshot", {}],
  ["a picture of a page", { "text/html": "<img>" }],
  ["a file, with its name", { "text/plain": "image.png" }],
])("%s is pasted as a file", (_name, words) => {
  const tray = trayOf();

  expect(paste(words).defaultPrevented).toBe(true);
  expect(tray.held).toHaveLength(1);
});
