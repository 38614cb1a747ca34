import { expect, test } from "vitest";
import { drawCsv, parseCsv, seriesOf } from "./csv.ts";

test("quoted cells keep separators, quotes and line breaks", () => {
  expect(parseCsv('a;b\n"x;1";"say ""hi""\nthere"\r\n\n')).toEqual([
    ["a", "b"],
    ["x;1", 'say "hi"\nthere'],
  ]);
});

test("columns of numbers become series, others do not", () => {
  const rows = parseCsv("month,boats,note,cost\nJan,12,fine,$1.50\nFeb,30,late,$2");

  expect(seriesOf(rows)).toEqual([
    { name: "boats", values: [12, 30] },
    { name: "cost", values: [1.5, 2] },
  ]);
});

test("a table without numbers has no chart, and cells are text", () => {
  const box = drawCsv("a,b\n<b>x</b>,y");

  expect(box.querySelector("svg")).toBeNull();
  expect(box.querySelector("td")?.textContent).toBe("<b>x</b>");
});

test("a chart has a line per series and names them", () => {
  const box = drawCsv("m,a,b\n1,2,3\n2,4,5\n3,6,7");

  expect(box.querySelectorAll("polyline")).toHaveLength(2);
  expect(box.querySelector("svg")?.getAttribute("aria-label")).toBe("Chart of a, b");
});
