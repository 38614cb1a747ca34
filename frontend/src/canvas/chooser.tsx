/** A dialog in which one searches a list and picks from it, by mouse or keyboard. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon } from "./icon.tsx";

export interface Choice {
  key: string;
  label: string;
  about?: string;
  icon?: string;
  group?: string;
  isDraggable?: boolean;
}

interface ChooserProps {
  title: string;
  placeholder: string;
  choices: Choice[];
  none: string;
  onPick: (key: string) => void;
  onClose: () => void;
}

/** A modal dialog that closes on Escape and on a click outside. */
export function Dialog({ title, onClose, children, kind = "" }: { title: string; onClose: () => void; children: ReactNode; kind?: string }): ReactNode {
  const box = useRef<HTMLDialogElement | null>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("input, textarea, select")?.focus();
    return () => {
      dialog?.close();
      // Unless the choice moved the focus on.
      if (before instanceof HTMLElement && (document.activeElement === document.body || !document.activeElement)) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      className={`sheet cv-dialog ${kind}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => (event.target === box.current ? onClose() : undefined)}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div className="cv-dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" className="btn btn-bare btn-square btn-sm" aria-label="Close" onClick={onClose}><Icon name="x" /></button>
      </div>
      {children}
    </dialog>
  );
}

export function Chooser({ title, placeholder, choices, none, onPick, onClose }: ChooserProps): ReactNode {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLUListElement | null>(null);
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = choices.filter((one) => {
    const text = `${one.label} ${one.about ?? ""} ${one.group ?? ""}`.toLowerCase();
    return parts.every((part) => text.includes(part));
  }).slice(0, 100);
  const chosen = Math.min(at, found.length - 1);
  const move = (to: number): void => {
    setAt(to);
    list.current?.children[to]?.scrollIntoView({ block: "nearest" });
  };
  const onKey = (event: React.KeyboardEvent): void => {
    if (event.key === "ArrowDown") move(Math.min(found.length - 1, chosen + 1));
    else if (event.key === "ArrowUp") move(Math.max(0, chosen - 1));
    else if (event.key === "Enter") found[chosen] && onPick(found[chosen].key);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={title} onClose={onClose} kind="cv-chooser">
      <input className="input" type="search" role="combobox" aria-expanded="true" aria-controls={`${id}-list`} aria-activedescendant={found.length ? `${id}-${chosen}` : undefined} aria-label={placeholder} placeholder={placeholder} autoComplete="off" value={words} onChange={(event) => { setWords(event.target.value); setAt(0); }} onKeyDown={onKey} />
      {found.length ? null : <p className="cv-help" role="status">{none}</p>}
      <ul role="listbox" id={`${id}-list`} aria-label={title} ref={list}>
        {found.map((one, nth) => (
          <li
            key={one.key}
            id={`${id}-${nth}`}
            role="option"
            aria-selected={nth === chosen}
            draggable={one.isDraggable}
            onDragStart={(event) => {
              event.dataTransfer.setData("application/x-canvas-node", one.key);
              event.dataTransfer.effectAllowed = "copy";
              // The dialog would cover the canvas.
              window.setTimeout(onClose, 0);
            }}
            onMouseMove={() => (nth === chosen ? undefined : setAt(nth))}
            onClick={() => onPick(one.key)}
          >
            {one.icon ? <Icon name={one.icon} /> : null}
            <span className="cv-choice"><span>{one.label}</span>{one.about ? <small>{one.about}</small> : null}</span>
            {one.group ? <small className="cv-choice-group">{one.group}</small> : null}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
