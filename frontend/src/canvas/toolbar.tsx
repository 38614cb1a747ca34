/** The bar above the canvas: what one can do, who else is here, whether it is saved and published. */
import { type ReactNode, useState } from "react";
import { useCell, useShared, useView } from "./context.ts";
import type { View } from "./document.ts";
import { Icon } from "./icon.tsx";

interface ToolbarProps {
  onAdd: () => void;
  onUndo: () => void;
  onRedo: () => void;
  onTidy: () => void;
  onFind: () => void;
  onHelp: () => void;
  onTemplates: () => void;
  onRun: () => void;
  onProblems: () => void;
}

function Tool({ icon, words, onClick, isOff = false, keys }: { icon: string; words: string; onClick: () => void; isOff?: boolean; keys: string }): ReactNode {
  return (
    <button type="button" className="btn btn-bare btn-square btn-sm" aria-label={words} title={`${words} (${keys})`} aria-disabled={isOff} onClick={() => (isOff ? undefined : onClick())}>
      <Icon name={icon} />
    </button>
  );
}

export function Toolbar(props: ToolbarProps): ReactNode {
  const { boot, doc } = useShared();
  const view = useView();
  const [error, setError] = useState("");
  const [isPublishing, setPublishing] = useState(false);
  const isPublished = view.published === view.revision && view.saving === "saved" && view.revision > 0;
  const publish = async (): Promise<void> => {
    setPublishing(true);
    setError("");
    try {
      await doc.publish();
    } catch (fault) {
      setError((fault as Error).message);
      props.onProblems();
    }
    setPublishing(false);
  };
  return (
    <div className="cv-bar" role="toolbar" aria-label="Canvas">
      {boot.may_build ? (
        <>
          <button type="button" className="btn btn-quiet btn-sm" title="Add a node (A)" onClick={props.onAdd}><Icon name="plus" />Add</button>
          <Tool icon="undo-2" words={view.undoLabel ? `Undo: ${view.undoLabel}` : "Undo"} keys="Ctrl+Z" isOff={!view.undoLabel} onClick={props.onUndo} />
          <Tool icon="redo-2" words={view.redoLabel ? `Redo: ${view.redoLabel}` : "Redo"} keys="Ctrl+Shift+Z" isOff={!view.redoLabel} onClick={props.onRedo} />
          <Tool icon="network" words="Tidy up" keys="T" onClick={props.onTidy} />
          <Tool icon="layout-template" words="Templates" keys="button" onClick={props.onTemplates} />
        </>
      ) : null}
      <Tool icon="search" words="Find a node" keys="F" onClick={props.onFind} />
      <Tool icon="keyboard" words="Keys" keys="?" onClick={props.onHelp} />
      <span className="cv-bar-space" />
      <Peers />
      <span className={`cv-saved is-${view.saving}`} role="status">{savedWords(view)}</span>
      {boot.urls.page && location.pathname !== boot.urls.page ? <a className="btn btn-bare btn-square btn-sm" href={boot.urls.page} aria-label="Open in full width" title="Open in full width"><Icon name="maximize-2" /></a> : null}
      {boot.may_run ? <button type="button" className="btn btn-quiet btn-sm" title="Run (R)" onClick={props.onRun}><Icon name="play" />Run</button> : null}
      {boot.may_build ? (
        <button type="button" className={`btn btn-sm ${isPublished ? "btn-quiet" : "btn-primary"}`} disabled={isPublished || isPublishing || !view.graph.nodes.length} onClick={() => void publish()}>{isPublished ? `Published r${view.published}` : "Publish"}</button>
      ) : null}
      {error || view.saving === "failed" ? <p className="cv-wrong cv-bar-wrong" role="alert">{error || view.error}</p> : null}
    </div>
  );
}

function savedWords(view: View): string {
  switch (view.saving) {
    case "failed":
      return "Not saved";
    case "saving":
    case "unsaved":
      return "Saving…";
    case "saved":
      return view.revision ? `Saved · r${view.revision}` : "";
  }
}

function Peers(): ReactNode {
  const { peers } = useShared();
  const list = useCell(peers);
  const names = [...new Set(list.map((peer) => peer.name))];
  if (!names.length) return null;
  return (
    <span className="cv-peers" aria-label={`Also here: ${names.join(", ")}`} title={`Also here: ${names.join(", ")}`} role="img">
      {names.slice(0, 4).map((name) => <span key={name} className="cv-peer">{name.slice(0, 1).toUpperCase()}</span>)}
      {names.length > 4 ? <span className="cv-peer">+{names.length - 4}</span> : null}
    </span>
  );
}
