/** Follows the newest line while the reader is at the end. */

/** Pixels from the end that still count as the end. */
const NEAR = 48;

export class Scroll {
  private atEnd = true;
  private readonly box: HTMLElement;
  private readonly jump: HTMLElement;
  private readonly target: EventTarget;

  /** On a desktop `page` scrolls, on a phone the document does. */
  constructor(page: HTMLElement, jump: HTMLElement) {
    const own = getComputedStyle(page).overflowY;
    const isOwn = own === "auto" || own === "scroll";
    this.box = isOwn ? page : (document.scrollingElement as HTMLElement) ?? page;
    this.target = isOwn ? page : window;
    this.jump = jump;
    this.target.addEventListener("scroll", this.look, { passive: true });
    jump.addEventListener("click", this.toEnd);
  }

  private look = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    this.atEnd = scrollHeight - scrollTop - clientHeight <= NEAR;
    this.jump.hidden = this.atEnd;
  };

  toEnd = (): void => {
    this.box.scrollTop = this.box.scrollHeight;
    this.atEnd = true;
    this.jump.hidden = true;
  };

  /** Scroll to the end after drawing if the reader was there. */
  follow(): void {
    if (this.atEnd) this.box.scrollTop = this.box.scrollHeight;
    else this.look();
  }

  /** Draw above the visible part without moving it on the screen. */
  hold(draw: () => void): void {
    const before = this.box.scrollHeight - this.box.scrollTop;
    draw();
    this.box.scrollTop = this.box.scrollHeight - before;
  }

  close(): void {
    this.target.removeEventListener("scroll", this.look);
    this.jump.removeEventListener("click", this.toEnd);
  }
}
