// Rows of a comparison over each other: one chart for each column, one set of controls for all charts.

const MEASURES = { error: "Error", quantity: "Quantity f", quality: "Quality g" };
const hidden = new Set(); // places of rows that are not drawn
const BAND = "26"; // opacity, as the last two digits of a colour
const SEED = "70";
const FEW = 12; // records that get a dot each

const known = (value) => value !== null && value !== undefined;

// At every step the mean of the seeds and a band around it. Where a seed has no figure there is none: a mean of other seeds would jump.
function overSeeds(lines, band) {
  const means = [], spreads = [], highs = [], lows = [];
  lines[0].forEach((_, place) => {
    const values = lines.map((line) => line[place]);
    const whole = values.every(known);
    const mean = whole ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    const spread = whole && values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1)) : null;
    means.push(mean);
    spreads.push(spread);
    highs.push(spread === null ? null : band === "sd" ? mean + spread : Math.max(...values));
    lows.push(spread === null ? null : band === "sd" ? Math.max(0, mean - spread) : Math.min(...values));
  });
  return { means, spreads, highs, lows };
}

// What a row adds to a chart: its seeds, its band, and its mean on top. `place` puts values at the chart's steps.
function rowSeries(cell, place, first) {
  const measure = find("measure").value, band = find("band").value;
  const lines = cell[measure].map((line) => line.map((value) => (known(value) ? value / data.unit : null)));
  const { means, spreads, highs, lows } = overSeeds(lines, band);
  const stroke = color(`row-${cell.row % data.colors}`);
  const dash = data.dashes[Math.floor(cell.row / data.colors) % data.dashes.length];
  const aside = { class: "aside", points: { show: false }, spanGaps: true };
  const series = [], values = [], bands = [];
  if (band !== "none" && lines.length > 1) {
    series.push({ ...aside, label: "", width: 0 }, { ...aside, label: "", width: 0 });
    values.push(place(highs), place(lows));
    bands.push({ series: [first, first + 1], fill: stroke + BAND });
  }
  if (find("seeds").checked) {
    for (const line of lines) {
      series.push({ ...aside, label: "", width: 1, stroke: stroke + SEED });
      values.push(place(line));
    }
  }
  const placed = place(spreads);
  series.push({
    label: data.rows[cell.row],
    stroke,
    width: 2,
    dash: dash.length ? dash : undefined,
    points: { fill: color("page"), show: cell.x.length <= FEW, size: 6 },
    spanGaps: true,
    value: (plot, value, _, index) => {
      if (!known(value)) return "–";
      return known(placed[index]) ? `${percent(value, 2).slice(0, -2)} ± ${percent(placed[index], 2)}` : percent(value, 2);
    },
  });
  values.push(place(means));
  return { series, values, bands };
}

// From zero where that costs little; otherwise rows that are close could not be told apart.
function shareRange(plot, low, high) {
  const [bottom, top] = yRange({ zero: low === null || low < 0.4 * high })(plot, low, high);
  return [Math.max(0, bottom), top];
}

function chartOf(box) {
  const measure = find("measure").value;
  const cells = data.columns[Number(box.dataset.chart)].cells.filter((cell) => cell[measure] && !hidden.has(cell.row));
  const steps = [...new Set(cells.flatMap((cell) => cell.x))].sort((a, b) => a - b);
  const series = [{ label: "Step", value: (plot, value) => (known(value) ? count(value) : "–") }];
  const values = [steps.length ? steps : [0, 1]], bands = [];
  for (const cell of cells) {
    const at = new Map(cell.x.map((step, index) => [step, index]));
    const place = (line) => steps.map((step) => (at.has(step) ? line[at.get(step)] : null));
    const row = rowSeries(cell, place, series.length);
    series.push(...row.series);
    values.push(...row.values);
    bands.push(...row.bands);
  }
  const options = {
    scales: { x: { time: false }, y: { range: shareRange } },
    axes: [axis(count, { space: 64, ...named("Step") }), axis(tickPercent, { size: wide })],
    series,
    bands,
    legend: { markers: { width: 0, fill: marker } },
    hooks: { ready: [restRows], setCursor: [restRows] },
  };
  return { data: values, options };
}

// A short piece of the row's line, which a legend takes as a background.
function marker(plot, place) {
  const { stroke, dash } = plot.series[place];
  const [line, gap] = dash || [1, 0];
  return `repeating-linear-gradient(90deg, ${stroke(plot, place)} 0 ${line}px, transparent ${line}px ${line + gap}px)`;
}

// With nothing under the pointer the legend shows the values at the last step.
function restRows(plot) {
  if (plot.cursor.idx != null || plot.resting || plot.series.length < 2) return;
  plot.resting = true;
  plot.setLegend({ idx: plot.data[0].length - 1 }, false);
  plot.resting = false;
}

const redraw = () => boxes.filter((box) => plots.has(box)).forEach(draw);

function toggle(places, shown) {
  for (const place of places) {
    if (shown) hidden.delete(place);
    else hidden.add(place);
  }
  for (const button of document.querySelectorAll(".row")) button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.row))));
  if (find("all-rows")) find("all-rows").textContent = hidden.size ? "Show all" : "Hide all";
  redraw();
}

function start() {
  if (!find("controls")) return;
  for (const name of data.measures) {
    const option = element("option", MEASURES[name]);
    option.value = name;
    find("measure").append(option);
  }
  for (const id of ["measure", "band", "seeds"]) find(id).addEventListener("change", redraw);
  for (const button of document.querySelectorAll(".row")) {
    const place = Number(button.dataset.row);
    button.addEventListener("click", () => toggle([place], hidden.has(place)));
  }
  find("all-rows")?.addEventListener("click", () => toggle(data.rows.keys(), hidden.size > 0));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

start(); // the script stands at the end of the page; boxes are drawn after it
