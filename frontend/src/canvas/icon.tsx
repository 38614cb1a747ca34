/** The icons of the editor, drawn by the server into `<template id="canvas-icons">`. */
import type { ReactNode } from "react";

const markups = new Map<string, string>();

function markupOf(name: string): string {
  const known = markups.get(name);
  if (known !== undefined) return known;
  const store = document.querySelector<HTMLTemplateElement>("#canvas-icons");
  const found = store?.content.querySelector(`[data-icon="${name}"] > svg`)?.outerHTML ?? "";
  markups.set(name, found);
  return found;
}

/** An icon. The markup is the server's own, never a person's text. */
export function Icon({ name }: { name: string }): ReactNode {
  return <span className="cv-icon" aria-hidden="true" dangerouslySetInnerHTML={{ __html: markupOf(name) }} />;
}
