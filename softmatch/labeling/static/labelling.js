// The Label screen: one large sample, a key for each class, the next samples fetched ahead.

import { flush, page, read, save, tab, turn } from "/static/server.js";
import { askName, cellTable, classButtons, classOf, counted, fail, make, percent, pictureOf, renameClass, sampleView, speak, warn } from "/static/parts.js";

const AHEAD = 6;
let queue = []; // the first one is shown; kept when another screen is opened
let fetching = false;
let exhausted = false;
let planned = false; // suggestions are there; what was fetched before them came in any order

export function labelScreen(main) {
  const stage = make("section", { class: "stage", "aria-label": "Sample" });
  const why = make("div", { class: "why" });
  const classes = make("div", { class: "classes", role: "group", "aria-label": "Classes" });
  const actions = make("div", { class: "actions", role: "group", "aria-label": "Other actions" });
  const progress = make("div", { class: "fine progress" });
  main.append(make("div", { class: "sample" }, stage, why), make("aside", { class: "side" }, classes, actions, progress));
  let shown = null;
  let open = true;
  let drawnClasses = "";

  const act = (label, values) => {
    const sample = queue[0];
    if (!sample || sample.id === undefined) return;
    if (values.label && stage.querySelector(".problem")) { warn(`${sample.name} cannot be read, so it gets no label. Skip it with S.`); return; }
    queue.shift();
    warn("");
    render();
    save({ samples: [sample.id], names: [sample.name], ...values }, (error) => { fail(error); queue.unshift(sample); shown = null; render(); }).then(fill);
    speak(`${label}. ${queue[0] ? describe(queue[0]) : ""}`);
    fill();
  };
  const choose = (label, how = "key") => act(`Labelled ${label}`, { how, label });
  const accept = () => {
    if (queue[0]?.prediction) choose(queue[0].prediction, "accept");
    else speak("There is no prediction to accept.");
  };
  const name = async () => {
    if (!queue[0]) return;
    const given = await askName();
    if (given) choose(given, "new");
  };
  const rename = async () => { if (page.state.classes.length) await renameClass(); };
  const back = async (how) => {
    try {
      const found = await turn(how);
      if (!found.acted) return speak(`There is nothing to ${how}.`);
      if (how === "undo" && found.sample) queue.unshift(found.sample);
      else queue = queue.filter((sample) => !found.samples.includes(sample.id));
      speak(how === "undo" ? `Undone${found.samples.length > 1 ? `: ${found.samples.length} samples` : ""}.` : "Done again.");
      shown = null;
      render();
      fill();
    } catch (error) { fail(error); }
  };

  async function fill() {
    if (fetching || queue.length > AHEAD || !open) return;
    fetching = true;
    let wait = 100;
    try {
      await flush(); // the server must know what is labelled before it chooses
      const found = await read("next", { number: AHEAD + 2 - queue.length, tab, held: queue.map((sample) => sample.id).join(",") });
      const held = new Set(queue.map((sample) => sample.id));
      queue.push(...found.samples.filter((sample) => !held.has(sample.id)));
      exhausted = !found.samples.length;
      queue.slice(1).forEach(prefetch);
    } catch (error) {
      fail(error);
      wait = 1000;
    } finally { fetching = false; }
    if (open) render();
    if (!exhausted && queue.length < 3) setTimeout(fill, wait);
  }

  function prefetch(sample) {
    if (!["image", "sound"].includes(page.state.kind) || sample.view) return;
    sample.view = sampleView(sample);
    sample.view.decode?.().catch(() => {}); // ahead of its turn; a picture that cannot be read says so itself
  }

  function render() {
    const { state } = page;
    const sample = queue[0];
    for (const each of queue) { // a class that was renamed is not predicted any more
      if (each.prediction && !state.classes.some(({ name }) => name === each.prediction)) {
        Object.assign(each, { prediction: null, reason: "Its prediction had the former name of a class." });
        if (each === shown) shown = null;
      }
    }
    if (shown !== sample) {
      shown = sample;
      showSample(sample);
    }
    main.dataset.ahead = queue.length;
    const wanted = JSON.stringify(state.classes);
    if (wanted !== drawnClasses) {
      drawnClasses = wanted;
      const buttons = classButtons((label) => choose(label));
      classes.classList.toggle("many", buttons.length > 8);
      classes.replaceChildren(...buttons, ...(buttons.length ? [] : [make("p", { class: "hint" }, "No classes yet. Press N, or “New class”, to name the class of this sample.")]));
    }
    for (const button of actions.children) {
      if (button.dataset.needs) button.disabled = !state[button.dataset.needs];
      if (button.dataset.prediction) button.disabled = !sample?.prediction;
      if (button.dataset.classes) button.disabled = !state.classes.length;
    }
    const [done, total] = state.progress;
    const finding = state.ready || state.problem ? state.problem : done < total ? `Reading samples: ${counted(done)} of ${counted(total)}` : "Finding similar samples…";
    const given = state.given ? ` · ${counted(state.given)} labelled in the source` : "";
    progress.replaceChildren(...[
      make("p", {}, `${counted(state.labeled)} of ${counted(state.total)} labelled here${given}`),
      make("p", {}, `Random samples, to measure the error: ${counted(state.random)}${state.measuring < 20 ? ". There are too few samples for 20 of them, so the error is measured on all labels" : state.random < 20 ? ` of 20${state.labeled < 40 ? ". They come after the first 40 labels" : ""}` : ""}${state.skipped ? ` · ${counted(state.skipped)} left out` : ""}`),
      finding && make("p", { class: "finding" }, finding),
    ].filter(Boolean));
  }

  function showSample(sample) {
    const { state } = page;
    const files = ["image", "sound"].includes(state.kind);
    if (!sample) {
      stage.replaceChildren(make("p", { class: "hint" }, exhausted && (state.ready || state.problem) ? state.given === state.total ? "Every sample has a label in the source. Look at them in Review." : "Every sample has been seen. Look at Review, or train." : "Choosing samples…"));
      why.replaceChildren();
      return;
    }
    const view = sample.view ?? sampleView(sample);
    const others = sample.others && Object.keys(sample.others).length
      ? make("details", { class: "others" }, make("summary", {}, "Other columns"), cellTable(sample.others)) : null;
    stage.replaceChildren(view, ...(others ? [others] : []));
    stage.classList.toggle("reading", !files);
    play();
    const guess = sample.prediction
      ? make("p", { class: "guess" }, "Prediction: ", make("strong", {}, sample.prediction), ` ${percent(sample.confidence)}`) : null;
    why.replaceChildren(...[guess, sample.label ? make("p", { class: "guess" }, "Label so far: ", make("strong", {}, sample.label)) : null,
      make("p", { class: "reason" }, sample.reason), make("p", { class: "fine file" }, files ? sample.name : `Row ${sample.name}`)].filter(Boolean));
  }

  function play() { // a browser may refuse before the first key; the control remains
    const sound = stage.querySelector("audio");
    if (!sound) return;
    sound.currentTime = 0;
    sound.play().catch(() => {});
  }

  const describe = (sample) => `Next: ${sample.text ?? sample.name}. ${sample.prediction ? `Prediction ${sample.prediction}, ${percent(sample.confidence)}.` : ""} ${sample.reason}`;
  const action = (key, text, work, more = {}) => make("button", { type: "button", onclick: work, ...more }, make("kbd", { "aria-hidden": "true" }, key), text);
  actions.append(
    action("↵", "Accept", accept, { "data-prediction": "yes" }), action("N", "New class", name),
    action("X", "None of these", () => act("None of these", { how: "none" })), action("S", "Skip", () => act("Skipped", { how: "skip" })),
    action("Z", "Undo", () => back("undo"), { "data-needs": "undo" }), action("⇧Z", "Redo", () => back("redo"), { "data-needs": "redo" }),
    make("button", { type: "button", class: "rename", "data-classes": "yes", onclick: rename }, "Rename or merge a class"),
  );
  if (!queue.length) exhausted = false;
  render();
  fill();
  return {
    refresh: () => {
      if (!planned && page.state.ready && page.state.fresh) {
        planned = true;
        queue = queue.filter((sample, place) => !place || !sample.reason.startsWith("Any sample, until"));
        fill();
      }
      render();
      if (!queue.length) fill();
    },
    close: () => { open = false; },
    press: (key, event) => {
      const label = classOf(key);
      if (event.repeat && key !== "z") return true; // a key that is held labels one sample
      if (label !== undefined) choose(label);
      else if (key === "Enter") accept();
      else if (key === "n") name();
      else if (key === "." && page.state.kind === "sound") play();
      else if (key === "x") act("None of these", { how: "none" });
      else if (key === "s") act("Skipped", { how: "skip" });
      else if (key === "z") back(event.shiftKey ? "redo" : "undo");
      else return false;
      return true;
    },
    help: { "1–9, A–Y": "Label with this class, and go on", Enter: "Accept the prediction", N: "New class, or any class by its name", X: "None of the classes fits", S: "Skip", Z: "Undo", "Shift+Z": "Redo", ...(page.state.kind === "sound" ? { ".": "Play again" } : {}) },
  };
}
