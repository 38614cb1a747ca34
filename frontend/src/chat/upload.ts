/** Puts files into a session's workspace, telling how far it is. */
import type { Attached } from "./items.ts";
import { newId, refusalOf } from "../lib/rest.ts";

export interface Sending {
  done: Promise<Attached>;
  stop(): void;
}

/** A folder for each, as two pictures from a clipboard have the same name. */
export function placeFor(name: string): string {
  return `uploads/${newId().replaceAll("-", "").slice(-6)}/${name.replaceAll("/", "_")}`;
}

/** `fetch` does not tell how much has gone up, so this is the older way. */
export function upload(
  api: string,
  token: string,
  file: File,
  onShare: (share: number) => void = () => undefined,
): Sending {
  const path = placeFor(file.name || "file");
  const request = new XMLHttpRequest();
  const done = new Promise<Attached>((resolve, reject) => {
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onShare(event.loaded / event.total);
    };
    request.onerror = () => reject(new Error("The connection broke."));
    request.onabort = () => reject(new Error("Stopped."));
    request.onload = () => {
      if (request.status >= 300) return reject(refusalOf(request.status, request.responseText));
      const { type: media_type, size } = file;
      resolve({ name: file.name || "file", path, media_type, size });
    };
  });
  request.open("POST", `${api}files/`);
  request.setRequestHeader("X-CSRFToken", token);
  request.setRequestHeader("Accept", "application/json");
  const form = new FormData();
  form.append("path", path);
  form.append("file", file);
  request.send(form);
  return { done, stop: () => request.abort() };
}

/** The address of a file of a session. */
export function fileUrl(api: string, path: string): string {
  return `${api}files/${path.split("/").map(encodeURIComponent).join("/")}`;
}
