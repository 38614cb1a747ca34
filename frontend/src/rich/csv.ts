/** Reads CSV, and draws it as a table and as a chart. */
import { h } from "../lib/dom.ts";

const MOST_ROWS = 1_000;
const MOST_POINTS = 500;
const WIDTH = 640;
const HEIGHT = 240;
const MARGIN = { top: 8, right: 8, bottom: 20, left: 48 };
const SVG = "http://www.w3.org/2000/svg";

/** Return the rows of a CSV or TSV text, with quoted cells. */
export function parseCsv(text: string): string[][] {
  const first = text.slice(0, text.indexOf("\n") < 0 ? text.length : text.indexOf("\n"));
  const separator = [",", ";", "\t"].reduce((best, one) => (first.split(one).length > first.split(best).length ? one : best));
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]!;
    if (isQuoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (sign === '"' && !cell) isQuoted = true;
    else if (sign === separator) {
      row.push(cell);
      cell = "";
    } else if (sign === "\n") {
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else if (sign !== "\r") cell += sign;
  }
  if (cell || row.length) rows.push([...row, cell]);
  return rows.filter((one) => one.some((value) => value.trim()));
}

/** A column of numbers. */
export interface Series {
  name: string;
  values: number[];
}

/** Return the columns that hold numbers only, without the first one, which labels the rows. */
export function seriesOf(rows: string[][]): Series[] {
  const [head, ...body] = rows;
  if (!head || body.length < 2) return [];
  return head.flatMap((name, at) => {
    const values = body.slice(0, MOST_POINTS).map((row) => numberIn(row[at] ?? ""));
    const isNumeric = at > 0 && values.every((value) => Number.isFinite(value));
    return isNumeric ? [{ name, values }] : [];
  });
}

function numberIn(text: string): number {
  const bare = text.trim().replaceAll(/[ ,$€%]/g, "");
  return bare ? Number(bare) : Number.NaN;
}

/** Return a chart of the numbers above a table of all cells. */
export function drawCsv(text: string): HTMLElement {
  const rows = parseCsv(text);
  const [head = [], ...body] = rows;
  const series = seriesOf(rows).slice(0, 6);
  const box = h("div", { class: "csv" });
  if (series.length) box.append(chart(body.slice(0, MOST_POINTS).map((row) => row[0] ?? ""), series));
  const table = h("table", {},
    h("thead", {}, h("tr", {}, ...head.map((cell) => h("th", { scope: "col", text: cell })))),
    h("tbody", {}, ...body.slice(0, MOST_ROWS).map((row) => h("tr", {}, ...row.map((cell) => h("td", { text: cell }))))),
  );
  box.append(h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Table" }, table));
  if (body.length > MOST_ROWS) box.append(h("p", { class: "csv-note", text: `The first ${MOST_ROWS} of ${body.length} rows.` }));
  return box;
}

function chart(labels: string[], series: Series[]): HTMLElement {
  const all = series.flatMap((one) => one.values);
  const low = Math.min(0, ...all);
  const high = Math.max(...all, low + 1e-9);
  const x = (at: number): number => MARGIN.left + ((WIDTH - MARGIN.left - MARGIN.right) * at) / Math.max(1, labels.length - 1);
  const y = (value: number): number => HEIGHT - MARGIN.bottom - ((HEIGHT - MARGIN.top - MARGIN.bottom) * (value - low)) / (high - low);
  const drawing = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Chart of ${series.map((one) => one.name).join(", ")}` });
  for (const value of [low, (low + high) / 2, high]) {
    drawing.append(
      node("line", { class: "csv-grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(value), y2: y(value) }),
      label(MARGIN.left - 6, y(value) + 4, "end", short(value)),
    );
  }
  drawing.append(label(MARGIN.left, HEIGHT - 4, "start", labels[0] ?? ""), label(WIDTH - MARGIN.right, HEIGHT - 4, "end", labels.at(-1) ?? ""));
  series.forEach((one, at) => {
    const points = one.values.map((value, n) => `${x(n).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    drawing.append(node("polyline", { class: `csv-line is-${at}`, points }));
  });
  const legend = h("p", { class: "csv-legend" }, ...series.map((one, at) => h("span", { class: `csv-key is-${at}`, text: one.name })));
  const box = h("figure", { class: "csv-chart" });
  box.append(drawing, legend);
  return box;
}

function node(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function label(x: number, y: number, anchor: string, text: string): SVGElement {
  const made = node("text", { class: "csv-label", x, y, "text-anchor": anchor });
  made.textContent = text.length > 24 ? `${text.slice(0, 23)}…` : text;
  return made;
}

function short(value: number): string {
  return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}
