// Charts over the steps, the histogram, and the slider that moves through training.

const charts = Object.fromEntries([...data.charts, ...data.statistics, ...data.losses].map((chart) => [chart.name, chart]));

/* ---- charts over the steps ---- */

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

const chartOf = (box) => (box.dataset.chart === "histogram" ? histogram() : lineChart(charts[box.dataset.chart]));

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
