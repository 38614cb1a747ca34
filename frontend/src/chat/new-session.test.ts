import { beforeEach, expect, test } from "vitest";
import type { Rest } from "../lib/rest.ts";
import { SessionStarter } from "./new-session.ts";

let posts: [path: string, body: unknown, key: string | undefined][];
let puts: string[];
let broken: string;
let starter: SessionStarter;

beforeEach(() => {
  posts = [];
  puts = [];
  broken = "";
  const post = async (path: string, body: unknown, key?: string) => {
    posts.push([path, body, key]);
    if (path === broken) throw new Error("Gone.");
    return { id: "s1" };
  };
  starter = new SessionStarter({
    rest: { post } as unknown as Rest,
    sessions: "/s/",
    put: (_api, file) => {
      puts.push(file.name);
      const { name } = file;
      const done =
        name === broken
          ? Promise.reject(new Error("Gone."))
          : Promise.resolve({ name, path: `uploads/${name}`, media_type: "", size: 1 });
      return { done, stop: () => undefined };
    },
  });
});

const FILES = [new File(["x"], "a"), new File(["x"], "b")];
const send = (text = "read it"): Promise<string> => starter.send("agent", text, FILES);
const keysOf = (path: string): (string | undefined)[] =>
  posts.flatMap(([to, , key]) => (to === path ? [key] : []));

test("a session is made, filled, and spoken to", async () => {
  expect(await send()).toBe("s1");
  expect(posts.map(([path]) => path)).toEqual(["/s/", "/s/s1/messages/"]);
  expect(posts[1]![1]).toMatchObject({ text: "read it", attachments: [{ name: "a" }, { name: "b" }] });
});

test("after a file that broke off, the same session is asked for and only that file sent again", async () => {
  broken = "b";
  await expect(send()).rejects.toThrow("Gone.");
  broken = "";
  await send();

  const [first, again] = keysOf("/s/");
  expect(again).toBe(first);
  expect(puts).toEqual(["a", "b", "b"]);
});

test("a message whose answer was lost is the same message, another text is another", async () => {
  broken = "/s/s1/messages/";
  await expect(send()).rejects.toThrow("Gone.");
  broken = "";
  await send();
  await send("read it well");

  const [first, again, other] = keysOf("/s/s1/messages/");
  expect(again).toBe(first);
  expect(other).not.toBe(first);
});
