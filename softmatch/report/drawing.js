"use strict";
// What every page of charts needs: its data, which is one JSON block, numbers, axes, drawing. A page says in chartOf(box) what a
// box shows, as uPlot takes it.

const data = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#3f90da", "#e08a00", "#c2410c", "#94a4a2", "#9b5fd0", "#a96b59", "#2aa876", "#b9a040", "#7c8190", "#45b3b8"];
const plots = new Map(); // element → its uPlot

const spaced = (text) => text.replaceAll(",", "\u202f").replace("-", "\u2212");
const count = (value) => spaced(value.toLocaleString("en"));
const percent = (value, digits = 1) => `${spaced((100 * value).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }))}\u202f%`;
function decimal(value) {
  if (value !== 0 && Math.abs(value) < 1e-4) return spaced(value.toExponential(1));
  return spaced(value.toLocaleString("en", { maximumSignificantDigits: 4 }));
}
const color = (name) => (typeof name === "number" ? PALETTE[name] : getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
const find = (id) => document.getElementById(id);

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

/* ---- axes ---- */

function axis(format, extra = {}) {
  return {
    stroke: color("soft"),
    grid: { stroke: color("grid"), width: 1 },
    ticks: { stroke: color("grid"), width: 1, size: 5 },
    font: "12px system-ui, sans-serif",
    values: (plot, splits, index, space, step) => splits.map((value) => (value === null ? "" : format(value, step))),
    ...extra,
  };
}

const named = (label) => ({ label, labelFont: "12px system-ui, sans-serif", labelSize: 20, labelGap: 0, size: 30 });

// As many decimals as the distance between two ticks needs.
function tickPercent(value, step) {
  const digits = [0, 1, 2].find((d) => Math.abs(step * 100 * 10 ** d - Math.round(step * 100 * 10 ** d)) < 1e-6) ?? 3;
  return percent(value, digits);
}

const tickLogarithmic = (value) => `${decimal(value * 100)}\u202f%`;

const wide = (plot, labels) => 18 + 7 * Math.max(2, ...(labels || []).map((label) => label.length));

function yRange(chart) {
  return (plot, low, high) => {
    if (low === null) return [0, 1];
    if (chart.top) return [0, Math.max(chart.top, high) * 1.02];
    if (chart.zero) return [0, high > 0 ? high * 1.06 : 1];
    return uPlot.rangeNum(low, high, 0.1, true);
  };
}

/* ---- drawing, resizing, keyboard ---- */

// With nothing under the pointer the legend shows the run's last values rather than dashes; a histogram has none.
function restLegend(plot) {
  const last = plot.data[1].findLastIndex((value) => value != null);
  if (plot.cursor.idx == null && plot.scales.weight === undefined && !plot.resting) {
    plot.resting = true;
    plot.setLegend({ idx: last }, false);
    plot.resting = false;
  }
}

function moveCursor(plot, event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const last = plot.data[0].length - 1;
  const from = plot.cursor.idx == null ? (step > 0 ? -1 : last + 1) : plot.cursor.idx;
  const to = Math.min(last, Math.max(0, from + step));
  plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: plot.over.clientHeight / 2 });
}

const chartHeight = (width) => (width < 480 ? 230 : 290);

function draw(box) {
  plots.get(box)?.destroy();
  plots.delete(box);
  const width = box.clientWidth;
  if (!width) return; // inside a closed section: the observer calls again when it opens
  const { data: values, options } = chartOf(box);
  const cursor = { drag: { x: false, y: false }, y: false, points: { size: 7 } };
  const legend = { markers: { width: 0, fill: (plot, place) => plot.series[place].stroke(plot, place) } };
  const hooks = { ready: [restLegend], setCursor: [restLegend] };
  plots.set(box, new uPlot({ width, height: chartHeight(width), cursor, legend, hooks, ...options }, values, box));
}

const boxes = [...document.querySelectorAll("[data-chart]")];
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = plots.get(target);
    if (!plot) draw(target);
    else if (target.clientWidth && plot.width !== target.clientWidth) {
      plot.setSize({ width: target.clientWidth, height: chartHeight(target.clientWidth) });
    }
  }
});
for (const box of boxes) {
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Chart: ${box.previousElementSibling.textContent}. Arrow keys show the values.`);
  box.addEventListener("keydown", (event) => plots.has(box) && moveCursor(plots.get(box), event));
  sizes.observe(box);
}
