// The screens Training and Enough?: figures and charts of the runs, read from their folders.

import { page, read, send } from "/static/server.js";
import { Chart } from "/static/charts.js";
import { counted, fail, make, percent, speak, warn } from "/static/parts.js";

const EVERY = 1500;
const WORDS = { Quantity: "Unlabelled samples used", Quality: "Right among those used" };
const USE = "Used: the weight that the method gives the unlabelled samples, on average; it grows as the model gets sure of them.";
const RIGHT = " Right: the share of that weight on right classes, where they are known.";
const FOLDS = "To measure the error, each part of the labels (a fold) is left out once and predicted by a model that has not seen it; the last model learns from all labels. The baseline is the same model, trained on the labels only.";
const WORK = { predict: ["Predicting", "The predictions are ready"], export: ["Exporting", "The model is exported"] };
const STATES = { running: "Running", finished: "Finished", stopped: "Stopped; its state is saved", failed: "Failed" };

const interval = (pair) => (pair ? `${percent(pair[0], 1)} to ${percent(pair[1], 1)}` : "");
const tile = (name, value, notes = [], title = null) => make("div", { title }, make("dt", {}, name), make("dd", {}, value), ...[notes].flat().filter(Boolean).map((note) => make("dd", { class: "note" }, note)));
const shares = (value) => (value === null || value === undefined ? "–" : percent(value, 1));

function time(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `about ${Math.ceil(seconds / 5) * 5} s left`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${(seconds / 3600).toFixed(1)} h left`;
}

export function trainingScreen(main) {
  const { only } = page.state;
  let name = page.state.runs.at(-1)?.name ?? null;
  let details = null;
  let open = true;
  let seen = "";
  const select = make("select", { id: "run", "aria-label": "Training", onchange: () => { name = select.value; load(); } });
  const start = make("button", { type: "button", class: "main", onclick: () => order({ how: "start" }) }, "Train with the labels so far");
  const stop = make("button", { type: "button", onclick: () => order({ how: "stop", name }) }, "Stop and save");
  const resume = make("button", { type: "button", onclick: () => order({ how: "resume", name }) }, "Resume");
  const status = make("p", { class: "lead", role: "status" });
  const bar = make("progress", { max: "1", value: "0", "aria-label": "Progress of the training" });
  const verdict = make("p", { class: "verdict" });
  const tiles = make("dl", { class: "tiles" });
  const caution = make("p", { class: "caution" });
  const measured = make("p", { class: "fine" });
  const warnings = make("ul", { class: "fine" });
  const output = make("pre", { class: "output" });
  const report = make("p", {});
  const panels = Object.fromEntries([["error", "Error"], ["pseudo", "Use of the unlabelled samples"], ["histogram", "How sure the model is of the unlabelled samples"]].map(([key, title]) => {
    const box = make("div", { class: "chart" });
    const caption = make("p", { class: "figcaption" });
    return [key, { figure: make("figure", { hidden: true }, make("h3", {}, title), box, caption), caption, chart: new Chart(box, title) }];
  }));
  main.append(make("div", { class: "tools" }, make("div", { class: "row" }, only ? null : start, only ? null : stop, only ? null : resume, only ? null : select)), status, bar, verdict, caution, tiles, measured, warnings, output,
    make("div", { class: "columns" }, ...Object.values(panels).map((panel) => panel.figure)), report);

  async function order(values) {
    try {
      name = (await send("train", values)).name;
      warn("");
      page.state.runs = (await read("state")).runs;
      await load();
    } catch (error) { fail(error); }
  }

  async function load() {
    if (!name) return render();
    try { details = await read("run", { name }); } catch (error) { fail(error); }
    if (details) page.state.runs = page.state.runs.map((run) => (run.name === details.name ? { ...run, state: details.state } : run));
    if (open) render();
    return null;
  }

  function render() {
    const { runs, classes, labeled, given } = page.state;
    const running = runs.some((run) => run.state === "running");
    const few = !only && (classes.length < 2 || labeled + given < 4);
    start.disabled = running || few;
    stop.hidden = details?.state !== "running";
    resume.hidden = details?.state !== "stopped" || running;
    const options = JSON.stringify(runs);
    if (options !== seen) {
      seen = options;
      select.replaceChildren(...runs.map((run) => make("option", { value: run.name, selected: run.name === name }, `Training ${run.name}: ${run.state}`)));
    }
    select.value = name ?? "";
    select.hidden = !runs.length;
    bar.hidden = details?.state !== "running";
    verdict.hidden = !details?.verdict;
    output.hidden = !details?.output;
    if (!details) {
      status.textContent = few ? "Label at least four samples of two classes, then train here." : "Nothing has been trained yet. You can go on labelling while a training runs.";
      return;
    }
    const part = details.state === "running" ? [details.part, time(details.left)].filter(Boolean).join(", ") : "";
    status.textContent = `${STATES[details.state]}${details.labels ? ` · ${counted(details.labels)} labels` : ""}${part ? ` · ${part}` : ""}`;
    bar.value = details.share;
    verdict.textContent = details.verdict;
    verdict.className = `verdict ${details.kind}`;
    output.textContent = details.output;
    measured.textContent = details.state === "running" && details.part.startsWith("Fold") ? FOLDS : details.measured;
    caution.textContent = details.live && details.live.baseline.error === null && details.live.method.error === null ? "" : cautionOf(details);
    warnings.replaceChildren(...details.warnings.filter((text) => !(caution.textContent && text.startsWith("Measured on"))).map((text) => make("li", {}, text)));
    showTiles();
    const error = details.charts.find((chart) => chart.name === "error");
    show("error", error && { ...error, caption: error.caption.replace(/ \(compare .*\)/, "") });
    const pseudo = details.charts.find((chart) => chart.name === "pseudo");
    show("pseudo", pseudo && { ...pseudo, caption: pseudo.series.length > 1 ? USE + RIGHT : USE, series: pseudo.series.map((each) => ({ ...each, label: WORDS[each.label.split(" ")[0]] ?? each.label })) });
    show("histogram", details.moment && { name: "histogram", moment: details.moment, confidence: details.confidence, truth: details.truth, top: details.largest_weight,
      caption: `Step ${counted(details.moment.step)}. Bars: share of the unlabelled samples by the confidence of their prediction. Line: the weight that the method gives them in training.` });
    report.replaceChildren(...(details.command ? [make("p", { class: "fine" }, "The same in a terminal: ", make("code", {}, details.command))] : []), ...(details.report ? [make("a", { href: `/report/${encodeURIComponent(details.name)}`, target: "_blank", rel: "noopener" }, "Whole report")] : []), ...(!only && details.state === "finished" ? [" · ", make("a", { href: "#enough" }, "Predict and export with this model")] : []));
  }

  function showTiles() {
    const last = (label) => details.charts.find((chart) => chart.name === "pseudo")?.series.find((each) => each.label.startsWith(label))?.values.findLast((value) => value !== null);
    const { live } = details;
    const method = live?.method ?? { error: details.test_error, interval: details.test_error_interval, samples: details.test_samples };
    const baseline = live?.baseline ?? { error: details.supervised_test_error, interval: details.baseline_interval, samples: details.test_samples };
    const quality = last("Quality") ?? details.quality;
    tiles.replaceChildren(
      errorTile(`Error, ${details.method}`, method),
      errorTile("Error, baseline (labels only)", baseline),
      tile(WORDS.Quantity, shares(last("Quantity") ?? details.quantity), "", "Quantity f in the report and the paper: mean weight of the unlabelled samples"),
      ...(quality === null || quality === undefined ? [] : [tile(WORDS.Quality, shares(quality), "", "Quality g in the report and the paper: share of the weight on right pseudo-labels")]),
    );
  }

  function errorTile(name, { error, interval: pair, samples }) {
    if (error === null || error === undefined) return tile(name, "–");
    const whose = details.live && details.figures_of.startsWith("Fold") ? ` of ${details.figures_of.split(":")[0].toLowerCase()}` : "";
    return tile(name, shares(error), [pair ? `95 % interval ${interval(pair)}` : "", samples ? `${details.live ? "so far, " : ""}on ${counted(samples)} samples${whose}` : ""]);
  }

  function show(key, chart) {
    const panel = panels[key];
    panel.figure.hidden = !chart;
    if (!chart) return;
    panel.caption.textContent = chart.caption;
    panel.chart.draw(chart);
  }

  load();
  const timer = setInterval(() => {
    if (document.visibilityState === "visible" && (details?.state === "running" || (!details && name))) load();
  }, EVERY);
  return {
    refresh: () => {
      if (!name && page.state.runs.length) { name = page.state.runs.at(-1).name; load(); } else render();
      if (details && details.state === "running" && page.state.runs.find((run) => run.name === name)?.state !== "running") load();
    },
    again: load,
    close: () => { open = false; clearInterval(timer); Object.values(panels).forEach((panel) => panel.chart.close()); },
    help: { Tab: "Move between the buttons and charts", "Arrow keys": "Values of a chart that has the focus" },
  };
}

/** What to know about an error that was measured on samples that were chosen. */
function cautionOf(run) {
  const { random, measuring, only } = page.state;
  if (run.measured_on !== "chosen") return "";
  const advice = only ? "" : measuring < 20 ? " Measure it on other data: softmatch train with --test." : random < 20 ? ` Go on labelling: a training that has 20 random samples (now ${random}) measures its error on them.` : " Train again: there are enough random samples now.";
  return `This error is probably wrong: it was measured on samples that were chosen, which are easier or harder than others.${advice}`;
}

export function enoughScreen(main) {
  const said = make("p", { class: "lead" });
  const caution = make("p", { class: "caution" });
  const box = make("div", { class: "chart" });
  const figure = make("figure", { hidden: true }, make("h3", {}, "Error against the number of labels"), box,
    make("p", { class: "figcaption" }, "Each point is a finished training of this project; the lines at a point are its 95 % interval. When the line is flat, more labels of the same kind will not help much."));
  const chart = new Chart(box, "Error against the number of labels");
  const table = make("tbody", {});
  const ahead = make("p", { class: "lead" });
  const how = make("p", { class: "fine" });
  const list = make("table", { class: "runs", hidden: true }, make("thead", {}, make("tr", {}, ...["Training", "Labels", "Error", "Baseline", "State"].map((head) => make("th", { scope: "col" }, head)))), table);
  const run = make("select", { id: "used", "aria-label": "Training to use" });
  const to = make("select", { id: "to", "aria-label": "Format" }, ...["safetensors", "torchscript", "onnx"].map((format) => make("option", {}, format)));
  const predict = make("button", { type: "button", onclick: () => order({ what: "predict", name: run.value }) }, "Predict all samples");
  const exporting = make("button", { type: "button", onclick: () => order({ what: "export", name: run.value, to: to.value }) }, "Export the model as");
  const result = make("p", { class: "lead", role: "status" });
  const output = make("pre", { class: "output", hidden: true });
  const use = make("section", { hidden: true }, make("h2", {}, "Use the model"), make("div", { class: "row" }, run, predict, exporting, to), result, output);
  main.append(said, caution, figure, ahead, how, list, use);
  let timer = 0;

  async function order(values) {
    try { await send("command", values); warn(""); await load(); speak("Started."); } catch (error) { fail(error); }
  }

  async function load() {
    const { runs, command } = await read("runs");
    const done = runs.filter((each) => each.state === "finished");
    const measured = done.filter((each) => each.test_error !== null).sort((a, b) => a.labels - b.labels);
    said.textContent = sentence(measured);
    caution.textContent = measured.length ? cautionOf(measured.at(-1)) : "";
    list.hidden = !runs.length;
    table.replaceChildren(...runs.map((each) => make("tr", {}, make("th", { scope: "row" }, each.name), ...[[counted(each.labels ?? 0)], [shares(each.test_error), each.test_error_interval, each.measured_on === "chosen" && each.test_error !== null], [shares(each.supervised_test_error), each.baseline_interval], [each.state]].map(([cell, pair, chosen]) => make("td", {}, cell, pair ? make("span", { class: "fine" }, interval(pair)) : null, chosen ? make("span", { class: "fine" }, "on chosen samples") : null)))));
    const chosen = run.value || done.at(-1)?.name;
    run.replaceChildren(...done.map((each) => make("option", { value: each.name, selected: each.name === chosen }, `Training ${each.name}`)));
    use.hidden = !done.length;
    const foreseen = measured.findLast((each) => each.curve)?.curve;
    figure.hidden = alike(measured).length < 2 && !foreseen; // one point is no curve
    const last = measured.at(-1);
    ahead.textContent = foreseen?.verdict ?? "";
    how.replaceChildren(...(last ? [foreseen ? `${foreseen.tested} The last points of the chart are predicted. ` : "What more labels would bring can be predicted from twelve more trainings: ", ...(last.curve ? [] : [make("code", {}, `softmatch curve ${last.path}`)])] : []));
    if (!figure.hidden) chart.draw({ name: "enough", runs: alike(measured), predicted: foreseen?.points.filter((each) => each.predicted) ?? [] });
    const busy = command?.state === "running";
    predict.disabled = exporting.disabled = busy;
    output.hidden = !command;
    if (command) {
      const [work, ready] = WORK[command.what];
      result.textContent = { running: `${work}…`, finished: `${ready}: ${command.file} on the machine of the server. `, failed: `${work} failed:` }[command.state];
      if (command.state === "finished") result.append(make("a", { href: `/download/${encodeURIComponent(command.result)}`, download: true }, "Download"));
      output.textContent = command.output;
    }
    clearTimeout(timer);
    if (busy) timer = setTimeout(load, EVERY);
  }

  load().catch(fail);
  return { again: () => load().catch(fail), refresh: () => { if (page.state.command?.state === "running" && !timer) load(); }, close: () => { clearTimeout(timer); chart.close(); }, help: { Tab: "Move between the buttons" } };
}

/** Runs whose errors can be compared with that of the last: on chosen samples, or not. */
const alike = (runs) => runs.filter((run) => (run.measured_on === "chosen") === (runs.at(-1).measured_on === "chosen"));

function sentence(runs) {
  if (!runs.length) return "No training has measured its error yet. Train with at least 20 labels to see a first figure here.";
  const last = runs.at(-1);
  const now = `With ${counted(last.labels)} labels the error is ${percent(last.test_error, 1)} (95 % interval ${interval(last.test_error_interval)}).`;
  const before = alike(runs).findLast((run) => run.labels < last.labels);
  if (!before) return `${now} ${runs.length > alike(runs).length ? "Earlier errors cannot be compared with it: they were measured on chosen samples. " : ""}Train again with more labels to see whether they help.`;
  const gain = before.test_error - last.test_error;
  const within = last.test_error_interval && before.test_error <= last.test_error_interval[1] && before.test_error >= last.test_error_interval[0];
  const change = `${(100 * Math.abs(gain)).toFixed(1)} points ${gain >= 0 ? "less" : "more"} than with ${counted(before.labels)}`;
  return `${now} That is ${change}${within ? ", a difference within the interval: it may be chance" : ""}.`;
}
