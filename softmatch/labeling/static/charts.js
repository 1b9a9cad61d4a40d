// Charts of the training screens, with uPlot and the drawing rules of the report (drawing.js).
/* global uPlot, axis, named, color, count, percent, decimal, tickPercent, yRange, wide, moveCursor, restLegend, chartHeight */

const BIN = 0.5;

/** A chart in a box; `draw` shows other data, which it does without flicker when their form is the same. */
export class Chart {
  constructor(box, title) {
    Object.assign(this, { box, plot: null, chart: null, form: "" });
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Chart: ${title}. Arrow keys show the values.`);
    box.addEventListener("keydown", (event) => this.plot && moveCursor(this.plot, event));
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(box);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.again = () => { this.form = ""; if (this.chart) this.draw(this.chart); };
    this.scheme.addEventListener("change", this.again);
  }

  draw(chart) {
    this.chart = chart;
    const width = this.box.clientWidth;
    if (!width) return;
    const { data, options } = { histogram, enough }[chart.name]?.(chart) ?? lines(chart);
    const form = JSON.stringify([chart.name, options.series.map((series) => series.label), chart.name === "enough" && [chart.runs, chart.predicted]]);
    if (this.plot && form === this.form) {
      this.plot.setData(data);
      restLegend(this.plot);
      return;
    }
    this.plot?.destroy();
    this.form = form;
    const cursor = { drag: { x: false, y: false }, y: false, points: { size: 7 } };
    const legend = { markers: { width: 0, fill: (plot, place) => plot.series[place].stroke(plot, place) } };
    const { hooks: more = {}, ...rest } = options;
    const hooks = { ready: [restLegend], setCursor: [restLegend], ...more };
    this.plot = new uPlot({ width, height: chartHeight(width), cursor, legend, hooks, ...rest }, data, this.box);
    this.plot.ctx.canvas.setAttribute("aria-hidden", "true"); // the legend says its values
  }

  resize() {
    const width = this.box.clientWidth;
    if (!width || !this.chart) return;
    if (!this.plot) this.draw(this.chart);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: chartHeight(width) });
  }

  close() {
    this.sizes.disconnect();
    this.scheme.removeEventListener("change", this.again);
    this.plot?.destroy();
  }
}

function lines(chart) {
  return {
    data: [chart.x, ...chart.series.map((series) => series.values)],
    options: {
      scales: { x: { time: false }, y: { range: yRange(chart) } },
      axes: [axis(count, { space: 64, ...named("Step") }), axis(tickPercent, { size: wide })],
      series: [
        { label: "Step", value: (plot, value) => (value === null ? "–" : count(value)) },
        ...chart.series.map((series) => ({
          label: series.label, stroke: color(series.color), width: 2, spanGaps: true, points: { fill: color("page") },
          dash: series.dash ? [6, 4] : undefined, value: (plot, value) => (value == null ? "–" : percent(value)),
        })),
      ],
    },
  };
}

function histogram({ moment, confidence, truth, top }) {
  const bins = moment.all.length;
  const first = confidence ? Math.floor(confidence[0] * bins + 1e-6) : 0;
  const centers = Array.from({ length: bins - first }, (_, place) => (first + place + BIN) / bins);
  const total = moment.all.reduce((sum, each) => sum + each, 0) || 1;
  const share = (counts) => counts.slice(first).map((each) => each / total);
  const bar = (label, name) => ({
    label, fill: color(name), stroke: color(name), width: 0, points: { show: false },
    paths: uPlot.paths.bars({ size: [0.86, 60], align: 0 }), value: (plot, value) => (value == null ? "–" : percent(value)),
  });
  const data = [centers, share(moment.all)];
  const series = [{ label: "Confidence", value: (plot, value) => (value === null ? "–" : value.toFixed(2)) }, bar("Samples", "all")];
  const axes = [axis((value) => decimal(Number(value.toFixed(3))), { space: 48, ...named("Confidence") }), axis(tickPercent, { size: wide })];
  if (truth && moment.wrong) {
    data.push(share(moment.wrong));
    series.push(bar("Wrong", "wrong"));
  }
  if (confidence && moment.weights) {
    data.push(centers.map((x) => interpolate(confidence, moment.weights, x)));
    series.push({ label: "Weight", scale: "weight", stroke: color("run"), width: 2.5, points: { show: false }, value: (plot, value) => (value == null ? "–" : decimal(Number(value.toFixed(3)))) });
    axes.push(axis(decimal, { scale: "weight", side: 1, size: wide, grid: { show: false }, stroke: color("run") }));
  }
  const scales = {
    x: { time: false, range: [first / bins, 1] },
    y: { range: (plot, low, high) => [0, high > 0 ? high * 1.05 : 1] },
    weight: { range: [0, Math.max(top || 1, 1e-6) * 1.05] },
  };
  return { data, options: { scales, axes, series } };
}

function interpolate(grid, values, x) {
  const after = grid.findIndex((each) => each >= x);
  if (after <= 0) return after ? values.at(-1) : values[0];
  const share = (x - grid[after - 1]) / (grid[after] - grid[after - 1]);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}

/** Errors over the number of labels, with their intervals as lines. */
function enough({ runs: done, predicted }) {
  const foreseen = predicted.map((point) => ({ labels: point.labels, predicted: point.error, test_error_interval: [point.low, point.high] }));
  const runs = [...done, ...foreseen].sort((one, other) => one.labels - other.labels);
  const whiskers = (plot) => {
    const { ctx } = plot;
    ctx.save();
    [["test_error_interval", "run", 0], ["baseline_interval", "baseline", 4]].forEach(([key, name, shift]) => {
      ctx.lineWidth = 1.5 * devicePixelRatio;
      for (const run of runs.filter((each) => each[key])) {
        ctx.strokeStyle = color(run.predicted === undefined ? name : "quality");
        const x = plot.valToPos(run.labels, "x", true) + shift * devicePixelRatio;
        ctx.beginPath();
        run[key].forEach((value, place) => ctx[place ? "lineTo" : "moveTo"](x, plot.valToPos(value, "y", true)));
        ctx.stroke();
      }
    });
    ctx.restore();
  };
  const most = Math.max(...runs.flatMap((run) => [run.test_error ?? 0, run.supervised_test_error ?? 0, ...(run.test_error_interval ?? []), ...(run.baseline_interval ?? [])]));
  const labels = runs.map((run) => run.labels);
  const spare = Math.max(10, (Math.max(...labels) - Math.min(...labels)) * 0.08);
  const series = (label, name, dash) => ({ label, stroke: color(name), width: 2, dash, spanGaps: true, points: { show: true, size: 8, fill: color(name) }, value: (plot, value) => (value == null ? "–" : percent(value)) });
  return {
    data: [labels, ...["test_error", "supervised_test_error", ...(foreseen.length ? ["predicted"] : [])].map((key) => runs.map((run) => run[key] ?? null))],
    options: {
      scales: { x: { time: false, range: [Math.max(0, Math.min(...labels) - spare), Math.max(...labels) + spare] }, y: { range: [0, Math.min(1, most * 1.06)] } },
      axes: [axis(count, { space: 64, ...named("Labels") }), axis(tickPercent, { size: wide })],
      series: [{ label: "Labels", value: (plot, value) => (value === null ? "–" : count(value)) }, series("Method", "run"), series("Baseline", "baseline", [6, 4]), ...(foreseen.length ? [series("Predicted", "quality", [2, 4])] : [])],
      hooks: { draw: [whiskers] },
    },
  };
}
