// Plots: the rate of a connector, and the time line of its transactions.

import { useEffect, useRef } from "./vendor/hooks.mjs";
import uPlot from "./vendor/uPlot.mjs";
import { html } from "./format.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const axes = () => [
  { stroke: color("--text"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } },
  { stroke: color("--text"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") }, size: 70 },
];

// Keeps one uPlot in an element, as wide as it is.
function usePlot(options, data, height) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = box.current;
    const made = new uPlot({ ...options(), width: element.clientWidth || 300, height }, data, element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => { resized.disconnect(); made.destroy(); };
  }, [height]);
  useEffect(() => { plot.current.setData(data); });
  return box;
}

export function RatePlot({ seen }) {
  const data = [seen.map(([at]) => at), seen.map(([, rate]) => rate)];
  const box = usePlot(() => ({
    legend: { show: false }, cursor: { show: false }, axes: axes(),
    scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
    series: [{}, { stroke: color("--good"), width: 2, fill: color("--good-soft") }],
  }), data, 150);
  return html`<div ref=${box} class="plot" role="img" aria-label="Rows per second since this page was opened"></div>`;
}

const COLORS = { COMMITTED: "--good", ABORTED: "--bad", FENCED: "--fenced", OPEN: "--open" };

// A rectangle for each transaction, a line for each task.
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
  const now = Date.now() / 1000;
  const bars = tasks.flatMap((task) => [
    ...task.ended.map((each) => ({ task: task.task, since: each.since / 1000, until: each.until / 1000, end: each.end })),
    ...(task.open_since === null ? [] : [{ task: task.task, since: task.open_since / 1000, until: now, end: "OPEN" }]),
  ]);
  const shown = useRef(bars);
  shown.current = bars;
  const first = bars.length ? Math.min(...bars.map((bar) => bar.since)) : now - 60;
  const numbers = tasks.map((task) => task.task);
  const data = [[Math.min(first, now - 10), now], [null, null]];
  const height = Math.min(400, 70 + 28 * Math.max(1, tasks.length));
  const box = usePlot(() => {
    const [x, y] = axes();
    return {
      legend: { show: false }, cursor: { show: false },
      axes: [x, { ...y, size: 50, splits: () => numbers, values: () => numbers.map((number) => `${number}`) }],
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
