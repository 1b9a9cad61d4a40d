"use strict";
// Charts over the steps, the histogram, and the slider that moves through training. The data is one JSON block of the page.

const data = JSON.parse(document.getElementById("data").textContent);
const charts = Object.fromEntries([...data.charts, ...data.statistics, ...data.losses].map((chart) => [chart.name, chart]));
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

/* ---- charts over the steps ---- */

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

function lineChart(chart) {
  const format = chart.unit === "percent" ? percent : decimal;
  const tick = chart.unit === "percent" ? tickPercent : decimal;
  return {
    data: [chart.x, ...chart.series.map((series) => series.values)],
    options: {
      scales: { x: { time: false }, y: { range: yRange(chart) } },
      axes: [axis(count, { space: 64, ...named("Step") }), axis(tick, { size: wide })],
      series: [
        { label: "Step", value: (plot, value) => (value === null ? "–" : count(value)) },
        ...chart.series.map((series) => ({
          label: series.label,
          stroke: color(series.color),
          width: 2,
          points: { fill: color("page") },
          dash: series.dash ? [6, 4] : undefined,
          spanGaps: chart.name === "error",
          value: (plot, value) => (value == null ? "–" : format(value)),
        })),
      ],
    },
  };
}

/* ---- the histogram of one moment ---- */

function interpolate(grid, values, x) {
  const after = grid.findIndex((g) => g >= x);
  if (after <= 0) return after ? values.at(-1) : values[0];
  const share = (x - grid[after - 1]) / (grid[after] - grid[after - 1]);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

function curvePath(moment) {
  return (plot, index) => {
    const stroke = new Path2D();
    (moment().weights || []).forEach((weight, place) => {
      stroke.lineTo(plot.valToPos(data.confidence[place], "x", true), plot.valToPos(weight, plot.series[index].scale, true));
    });
    return { stroke };
  };
}

const currentMoment = () => data.moments[Number(find("moment").value)];

function histogramValues() {
  const moment = currentMoment();
  const bins = moment.all ? moment.all.length : 50;
  const first = data.confidence ? Math.floor(data.confidence[0] * bins + 1e-6) : 0;
  const centers = Array.from({ length: bins - first }, (_, place) => (first + place + 0.5) / bins);
  const total = (moment.all || []).reduce((sum, n) => sum + n, 0) || 1;
  const empty = find("logarithmic").checked ? null : 0; // zero has no place on a logarithmic axis
  const shares = (counts) => (counts ? counts.slice(first).map((n) => (n ? n / total : empty)) : centers.map(() => null));
  const columns = [centers, shares(moment.all)];
  if (data.truth) columns.push(shares(moment.wrong));
  if (data.confidence) columns.push(centers.map((x) => (moment.weights ? interpolate(data.confidence, moment.weights, x) : null)));
  return columns;
}

function histogram() {
  const columns = histogramValues();
  const half = (columns[0][1] - columns[0][0]) / 2;
  const edges = [Math.max(0, columns[0][0] - half), 1];
  const logarithmic = find("logarithmic").checked;
  const bar = (label, name) => ({
    label,
    fill: color(name),
    stroke: color(name),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [0.86, 60], align: 0 }),
    value: (plot, value) => (value == null ? "–" : percent(value)),
  });
  const top = Math.max(data.largest_weight || 1, 1e-6);
  const most = Math.max(1, ...data.moments.map((m) => (m.all || []).reduce((sum, n) => sum + n, 0)));
  const smallest = 10 ** Math.floor(Math.log10(0.5 / most));
  const series = [{ label: "Confidence", value: (plot, value) => (value === null ? "–" : `${(value - half).toFixed(2)}–${(value + half).toFixed(2)}`) }];
  series.push(bar("All pseudo-labels", "all"));
  if (data.truth) series.push(bar("Wrong", "wrong"));
  const axes = [axis((value) => decimal(Number(value.toFixed(3))), { space: 48, ...named("Confidence p") }), axis(logarithmic ? tickLogarithmic : tickPercent, { size: wide })];
  if (data.confidence) {
    series.push({
      label: "Weight λ(p)", scale: "weight", stroke: color("run"), width: 2.5, points: { show: false },
      paths: curvePath(currentMoment), value: (plot, value) => (value == null ? "–" : decimal(Number(value.toFixed(3)))),
    });
    axes.push(axis(decimal, { scale: "weight", side: 1, size: wide, grid: { show: false }, stroke: color("run") }));
  }
  const linear = (plot, low, high) => [0, high > 0 ? high * 1.05 : 1];
  const scales = {
    x: { time: false, range: edges },
    y: logarithmic ? { distr: 3, range: [smallest, 1] } : { range: linear },
    weight: { range: [0, top * 1.05] },
  };
  return { data: columns, options: { scales, axes, series } };
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
  const { data: values, options } = box.dataset.chart === "histogram" ? histogram() : lineChart(charts[box.dataset.chart]);
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

/* ---- the slider ---- */

let playing = 0;

function showMoment() {
  const slider = find("moment");
  if (!slider) return;
  const { step } = currentMoment();
  const label = `Step ${count(step)}${data.total ? ` of ${count(data.total)}` : ""}`;
  find("moment-label").textContent = label;
  slider.setAttribute("aria-valuetext", label);
  const box = boxes.find((one) => one.dataset.chart === "histogram");
  if (box && plots.has(box)) plots.get(box).setData(histogramValues());
  showClasses();
  showAlignment();
}

function stop() {
  clearInterval(playing);
  playing = 0;
  find("play").textContent = "▶";
  find("play").setAttribute("aria-label", "Play through training");
}

function play() {
  if (playing) return stop();
  const slider = find("moment");
  if (slider.value === slider.max) slider.value = 0;
  find("play").textContent = "❚❚";
  find("play").setAttribute("aria-label", "Stop");
  playing = setInterval(() => {
    slider.value = Number(slider.value) + 1;
    showMoment();
    if (slider.value === slider.max) stop();
  }, Math.max(120, 8000 / data.moments.length));
  return showMoment();
}

function start() {
  find("moment")?.addEventListener("input", () => { stop(); showMoment(); });
  find("play")?.addEventListener("click", play);
  find("logarithmic")?.addEventListener("change", () => draw(boxes.find((box) => box.dataset.chart === "histogram")));
  prepareClasses();
  prepareResults();
  prepareBoundary();
  showMoment();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    boxes.forEach(draw);
    drawBoundaries();
  });
}

document.addEventListener("DOMContentLoaded", start);
