// Plots: the rate of a connector, and the time line of its transactions.

import { useEffect, useRef } from "./vendor/hooks.mjs";
import uPlot from "./vendor/uPlot.mjs";
import { html, now as workerNow } from "./format.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((hours) => hours * HOUR),
  ...[1, 2, 3, 7, 14, 30, 90, 365].map((days) => days * DAY),
];

const two = (number) => `${number}`.padStart(2, "0");

// Returns the labels of the time axis: 24-hour times in every locale. The first label of a day has the date below the time.
function times(_plot, splits, _axis, _space, step) {
  let day = "";
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000);
    const date = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    if (step >= DAY) return date;
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}${step < MINUTE ? `:${two(at.getSeconds())}` : ""}`;
    const label = date === day ? clock : `${clock}\n${date}`;
    day = date;
    return label;
  });
}

// Colors are looked up at each drawing, because the user may switch between light and dark mode.
const lines = () => {
  const stroke = () => color("--line");
  return { stroke: () => color("--text"), grid: { stroke }, ticks: { stroke } };
};
const axes = () => [{ ...lines(), values: times, incrs: STEPS, space: 80 }, { ...lines(), size: 70 }];
// The right padding has room for half of the last time label.
const PADDING = [null, 32, null, null];

// Keeps one uPlot in an element, and as wide as the element.
function usePlot(options, data, height) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = box.current;
    const shared = { legend: { show: false }, cursor: { show: false }, padding: PADDING };
    const made = new uPlot({ ...shared, ...options(), width: element.clientWidth || 300, height }, data, element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => made.redraw(false, true);
    dark.addEventListener("change", redraw);
    return () => { dark.removeEventListener("change", redraw); resized.disconnect(); made.destroy(); };
  }, [height]);
  useEffect(() => { plot.current.setData(data); });
  return box;
}

// Plots one figure: `seen` has pairs [seconds since 1970, figure]. A null is a gap in the line: no figure was recorded, for
// example because no worker ran.
export function FigurePlot({ seen, label }) {
  const data = [seen.map(([at]) => at), seen.map(([, figure]) => figure)];
  const box = usePlot(() => ({
    axes: axes(),
    scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
    series: [{}, { stroke: () => color("--good"), width: 2, fill: () => color("--good-soft") }],
  }), data, 150);
  return html`<div ref=${box} class="plot" role="img" aria-label=${label}></div>`;
}

const COLORS = { COMMITTED: "--good", ABORTED: "--bad", FENCED: "--fenced", OPEN: "--open" };

const LABELLED_TASKS = 12;

// Draws a rectangle for each transaction, in one row for each task.
function drawTransactions(plot, bars) {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  for (const { task, since, until, end } of bars) {
    const left = plot.valToPos(since, "x", true);
    const width = Math.max(2 * devicePixelRatio, plot.valToPos(until, "x", true) - left);
    const top = plot.valToPos(task + 0.35, "y", true);
    ctx.fillStyle = color(COLORS[end]);
    ctx.fillRect(left, top, width, plot.valToPos(task - 0.35, "y", true) - top);
  }
  ctx.restore();
}

export function TimeLine({ tasks }) {
  const now = workerNow() / 1000;
  const bars = tasks.flatMap((task) => [
    ...task.ended.map((each) => ({ task: task.task, since: each.since / 1000, until: each.until / 1000, end: each.end })),
    ...(task.open_since === null ? [] : [{ task: task.task, since: task.open_since / 1000, until: now, end: "OPEN" }]),
  ]);
  const shown = useRef(bars);
  shown.current = bars;
  const first = bars.length ? Math.min(...bars.map((bar) => bar.since)) : now - 60;
  const numbers = tasks.map((task) => task.task);
  const labelled = numbers.filter((_, at) => at % Math.ceil(numbers.length / LABELLED_TASKS) === 0);
  const data = [[Math.min(first, now - 10), now], [null, null]];
  const height = Math.min(400, 70 + 28 * Math.max(1, tasks.length));
  const box = usePlot(() => {
    const [x, y] = axes();
    return {
      axes: [x, { ...y, size: 50, splits: () => labelled, values: () => labelled.map((number) => `${number}`) }],
      scales: { y: { range: () => [-0.6, Math.max(0, ...numbers) + 0.6] } },
      series: [{}, {}],
      hooks: { draw: [(plot) => drawTransactions(plot, shown.current)] },
    };
  }, data, height);
  return html`<div ref=${box} class="plot" role="img"
      aria-label=${`${bars.length} transactions of ${tasks.length} tasks`}></div>
    <p class="legend">${["COMMITTED", "ABORTED", "FENCED", "OPEN"].map((end) =>
      html`<span><i class=${end.toLowerCase()}></i> ${end.toLowerCase()}</span> `)}</p>`;
}
