// Grids of samples: a cluster to label at once, and the lists of the Review screen.

import { page, read, save, turn } from "/static/server.js";
import { askName, classButtons, classOf, counted, fail, make, percent, sampleView, speak } from "/static/parts.js";

const PART = 60;
const CELL = { width: 132, height: 168 };

/** A grid of any number of samples: only those in sight are in the page. `load(offset, number)` gives { total, rows }. */
class Grid {
  constructor(label, load, draw) {
    Object.assign(this, { load, draw, rows: new Map(), total: 0, focus: 0, turn: 0, asked: new Set() });
    this.inner = make("div", { class: "inner", role: "presentation" });
    this.box = make("div", { class: "grid", role: "listbox", "aria-label": label, tabindex: "0" }, this.inner);
    this.box.addEventListener("scroll", () => this.render());
    this.box.addEventListener("focus", () => this.move(0));
    this.sizes = new ResizeObserver(() => this.render());
    this.sizes.observe(this.box);
  }

  get columns() { return Math.max(2, Math.floor(this.box.clientWidth / CELL.width)); }

  async reload(keepPlace = false) {
    const turn = this.turn += 1; // an older answer that comes later is not shown
    const part = keepPlace ? Math.floor(this.focus / PART) : 0;
    const found = await this.load(part * PART, PART);
    if (turn !== this.turn) return this.total;
    this.reserved = found.reserved ?? 0;
    Object.assign(this, { rows: new Map(), asked: new Set([part]) });
    if (!keepPlace) { this.focus = 0; this.box.scrollTop = 0; }
    this.take(part, found);
    return this.total;
  }

  async fetchPart(part) {
    if (this.asked.has(part)) return;
    this.asked.add(part);
    const { turn } = this;
    const found = await this.load(part * PART, PART);
    if (turn === this.turn) this.take(part, found);
  }

  take(part, found) {
    this.total = found.total;
    this.focus = Math.max(0, Math.min(this.focus, this.total - 1));
    found.rows.forEach((row, place) => this.rows.set(part * PART + place, row));
    this.render();
  }

  render() {
    const { columns } = this;
    const width = this.box.clientWidth / columns;
    this.inner.style.height = `${Math.ceil(this.total / columns) * CELL.height}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / CELL.height) - 1) * columns;
    const last = Math.min(this.total, first + (Math.ceil(this.box.clientHeight / CELL.height) + 3) * columns);
    const cells = [];
    for (let place = first; place < last; place += 1) {
      const row = this.rows.get(place);
      if (!row) { this.fetchPart(Math.floor(place / PART)); continue; }
      const cell = this.draw(row, place);
      cell.id = `cell-${place}`;
      cell.classList.toggle("focus", place === this.focus);
      cell.setAttribute("aria-posinset", place + 1);
      cell.setAttribute("aria-setsize", this.total);
      Object.assign(cell.style, { left: `${(place % columns) * width}px`, top: `${Math.floor(place / columns) * CELL.height}px`, width: `${width}px`, height: `${CELL.height}px` });
      cell.addEventListener("click", () => { this.focus = place; this.render(); });
      cells.push(cell);
    }
    this.inner.replaceChildren(...cells);
    if (this.total) this.box.setAttribute("aria-activedescendant", `cell-${this.focus}`);
  }

  move(by) {
    if (!this.total) return;
    this.focus = Math.min(this.total - 1, Math.max(0, this.focus + by));
    const top = Math.floor(this.focus / this.columns) * CELL.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + CELL.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + CELL.height - this.box.clientHeight;
    this.render();
  }

  press(key) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[key];
    if (by) this.move(by);
    return Boolean(by);
  }

  close() { this.sizes.disconnect(); }
}

const back = async (how, after) => {
  try {
    const found = await turn(how);
    speak(found.acted ? `${how === "undo" ? "Undone" : "Done again"}: ${found.samples.length} samples.` : `There is nothing to ${how}.`);
    await after(found);
  } catch (error) { fail(error); }
};

/* ---- Group ---- */

const passed = []; // these are kept when another screen is opened
const unticked = new Map(); // ids by cluster, also kept while another group is looked at, and by undo
const done = []; // groups that were labelled
let group = null;
let label = null;
let turns = 0;

export function groupScreen(main) {
  const said = make("p", { class: "lead" });
  const classes = make("div", { class: "classes", role: "group", "aria-label": "Class of the group" });
  const apply = make("button", { type: "button", class: "main", onclick: () => enter() });
  const grid = new Grid("Similar samples", async () => ({ total: group?.samples.length ?? 0, rows: group?.samples ?? [] }), (row) => {
    const ticked = !out().has(row.id);
    return make("div", { class: `cell${ticked ? "" : " out"}`, role: "option", "aria-selected": String(ticked), "aria-label": row.text ?? row.name, title: row.text ?? row.name, onclick: () => toggle(row) },
      make("span", { class: "tick", "aria-hidden": "true" }, ticked ? "✓" : "✕"), sampleView(row, true), make("span", { class: "caption" }, row.text ? "" : row.name));
  });
  const other = make("button", { type: "button", onclick: () => next(true) }, make("kbd", { "aria-hidden": "true" }, "S"), "Another group");
  const fresh = make("button", { type: "button", onclick: () => name() }, make("kbd", { "aria-hidden": "true" }, "N"), "New class");
  const undo = make("button", { type: "button", onclick: () => back("undo", restore) }, make("kbd", { "aria-hidden": "true" }, "Z"), "Undo");
  grid.box.setAttribute("aria-multiselectable", "true");
  main.append(make("div", { class: "tools" }, said, make("div", { class: "row" }, apply, other, fresh, undo)), classes, grid.box);

  const out = () => unticked.get(group?.cluster) ?? new Set();
  const toggle = (row) => {
    if (!row) return;
    unticked.set(group.cluster, out());
    if (!out().delete(row.id)) out().add(row.id);
    speak(out().has(row.id) ? `${row.name} left out.` : `${row.name} included.`);
    render();
  };
  const pick = (chosen) => { label = chosen; speak(`Class ${chosen}.`); render(); };
  const name = async () => { const given = group && await askName(); if (given) pick(given); };
  async function next(pass, again = null) {
    if (pass && group) passed.push(group.cluster);
    const turn = ++turns;
    const ask = () => read("group", { passed: passed.slice(-150).join(","), ...(again ? { again: again.cluster } : {}) });
    let found = await ask();
    if (!found.group && passed.length) { // all have been looked at: begin again with those that are left
      passed.length = 0;
      unticked.clear();
      found = await ask();
    }
    if (turn !== turns) return; // a later question, such as that of an undo, has overtaken this one
    group = found.group;
    label = again && group?.cluster === again.cluster ? again.label ?? label : group?.prediction ?? null;
    await grid.reload();
    if (!group) said.textContent = found.ready ? "No group of similar samples is left." : "Similar samples are still being found. Label single samples meanwhile.";
    render();
    if (group) grid.box.focus({ preventScroll: true });
  }
  async function enter() {
    const rows = group?.samples.filter((row) => !out().has(row.id)) ?? [];
    if (!rows.length || !label) return speak("Choose a class, and at least one sample.");
    speak(`${rows.length} samples labelled ${label}.`);
    done.push({ cluster: group.cluster, label, first: rows[0].id, out: out() });
    if (rows.length < group.samples.length) passed.push(group.cluster);
    await save({ how: "group", samples: rows.map((row) => row.id), names: rows.map((row) => row.name), label }, fail);
    return next(false);
  }
  function restore(found) { // the group whose labels were taken back, with what was unticked in it
    const last = found.acted && found.samples.includes(done.at(-1)?.first) ? done.pop() : null;
    if (last) {
      if (passed.includes(last.cluster)) passed.splice(passed.lastIndexOf(last.cluster), 1);
      unticked.set(last.cluster, last.out);
    }
    return next(false, last ?? group);
  }
  function render() {
    const number = group?.samples.filter((row) => !out().has(row.id)).length ?? 0;
    apply.disabled = !number || !label;
    apply.replaceChildren(make("kbd", { "aria-hidden": "true" }, "↵"), label ? `Label ${number} as ${label}` : "Choose a class");
    other.disabled = fresh.disabled = !group;
    undo.disabled = !page.state.undo;
    if (group) {
      const guess = group.prediction ? `, probably ${group.prediction}` : "";
      said.textContent = `${group.samples.length} of ${counted(group.size)} similar samples${guess}. Untick those that do not belong, then label the rest.`;
    }
    classes.replaceChildren(...classButtons(pick, label));
    grid.render();
  }
  render();
  next(false, group).catch(fail);
  return {
    again: () => next(false, group).catch(fail),
    refresh: () => { if (!group && page.state.ready) next(false).catch(fail); else render(); },
    close: () => grid.close(),
    press: (key, event) => {
      const chosen = classOf(key);
      if (grid.press(key)) return true;
      if (key === " ") toggle(group?.samples[grid.focus]);
      else if (key === "Enter") enter();
      else if (chosen !== undefined) pick(chosen);
      else if (key === "n") name();
      else if (key === "s") next(true);
      else if (key === "z") back(...(event.shiftKey ? ["redo", () => next(false)] : ["undo", restore]));
      else return false;
      return true;
    },
    help: { "Arrow keys": "Move in the grid", Space: "Untick or tick a sample", "1–9, A–Y": "Class of the group", Enter: "Label the ticked samples", N: "New class", S: "Another group", Z: "Undo the whole group", "Shift+Z": "Redo" },
  };
}

/* ---- Review ---- */

const LISTS = {
  disagreements: ["Doubtful labels", "Labels that a quick model contradicts, which has not seen them; where it is surest first."],
  mistakes: ["Held-out mistakes", "Held-out samples that the newest training got wrong; the most confident first. Wrong labels may be among them."],
  predictions: ["Predictions", "Samples without a label, the most confident prediction first."],
  doubtful: ["Doubtful predictions", "Samples without a label, the least confident prediction first."],
  copies: ["Near copies", "Pairs that hardly differ. Those with different labels come first."],
  outliers: ["Outliers", "Samples far from all others, the farthest first: broken files, other things, rare classes."],
  labels: ["Your labels", "All labels of this project, the newest first."],
  left: ["Left out", "Samples that you skipped, or that fit no class, the newest first."],
};
let chosenList = null;

export function reviewScreen(main) {
  const { only } = page.state;
  const names = only ? ["mistakes"] : Object.keys(LISTS);
  if (!names.includes(chosenList)) [chosenList] = names;
  const list = make("select", { id: "list", onchange: () => { chosenList = list.value; open(); } }, ...names.map((name) => make("option", { value: name, selected: name === chosenList }, LISTS[name][0])));
  const filter = make("select", { id: "filter", onchange: () => open() });
  const said = make("p", { class: "fine" });
  const classes = make("div", { class: "classes", role: "group", "aria-label": "Correct the label of the chosen sample" });
  let version = -1;
  const load = (offset, number) => read("review", { list: chosenList, offset, number, ...(filter.value ? { label: filter.value } : {}) });
  const grid = new Grid("Samples", load, (row, place) => {
    const guess = row.prediction ? `${row.now || row.label ? "→ " : ""}${row.prediction} ${percent(row.confidence ?? 0)}` : row.said ?? "";
    const label = row.now ?? row.label;
    const marked = place % 4 < 2 && row.pair ? " pair" : "";
    return make("div", { class: `cell${marked}`, role: "option", "aria-selected": String(place === grid.focus), "aria-label": `${row.text ?? row.name}: ${label ?? "no label"} ${guess}`, title: row.name },
      sampleView(row, true), make("span", { class: "caption" }, label ? make("strong", {}, label) : null, label && guess ? " " : "", guess));
  });
  main.append(make("div", { class: "tools" }, make("div", { class: "row" }, make("label", { for: "list" }, "List"), list, only ? null : make("label", { for: "filter" }, "Class"), only ? null : filter)), said, classes, grid.box);

  async function open(keepPlace = false) {
    try {
      const total = await grid.reload(keepPlace);
      version = page.state.version;
      const none = { disagreements: "Needs ten labels or more.", mistakes: "Needs a finished training that has measured its error.", predictions: "Needs labels of two classes.", copies: "No two samples hardly differ.", left: "No sample was skipped." }[chosenList] ?? "";
      said.textContent = total ? `${counted(total)} ${total === 1 ? "sample" : "samples"}. ${LISTS[chosenList][1]}${only ? "" : " Choose one, then its class, to correct it."}${grid.reserved ? ` ${counted(grid.reserved)} more samples are kept for measuring the error, so their predictions are not shown.` : ""}${doubted(total)}` : `Nothing here. ${none}`;
    } catch (error) { fail(error); }
    render();
  }
  const doubted = (total) => (chosenList === "disagreements" && !filter.value && total > (page.state.labeled + page.state.given) / 3 ? " That is so many of all labels that the model is to blame more often than the label: label more first." : "");
  const correct = async (label, how = "review") => {
    const row = grid.rows.get(grid.focus);
    if (!row || row.id === undefined || row.id === null) return;
    row.now = label;
    speak(`${row.name}: ${label ?? "none of the classes"}.`);
    grid.move(1);
    await save({ how, samples: [row.id], names: [row.name], label }, (error) => { fail(error); open(true); });
    version = page.state.version;
  };
  const name = async () => { const given = await askName(); if (given) correct(given); };
  function render() {
    if (!only) {
      const chosen = filter.value;
      filter.replaceChildren(make("option", { value: "" }, "All classes"), ...page.state.classes.map((each) => make("option", { value: each.name, selected: each.name === chosen }, each.name)));
      classes.replaceChildren(...classButtons((label) => correct(label)), make("button", { type: "button", class: "class", onclick: () => correct(null, "none") }, make("kbd", { "aria-hidden": "true" }, "X"), "None of these"));
    }
    grid.render();
  }
  render();
  open();
  return {
    again: () => open(true),
    refresh: () => { if (!only && page.state.version !== version && page.state.fresh) open(true); else render(); },
    close: () => grid.close(),
    press: (key, event) => {
      const chosen = classOf(key);
      if (grid.press(key)) return true;
      if (only) return false;
      if (chosen !== undefined) correct(chosen);
      else if (key === "n") name();
      else if (key === "x") correct(null, "none");
      else if (key === "z") back(event.shiftKey ? "redo" : "undo", () => open(true));
      else return false;
      return true;
    },
    help: only ? { "Arrow keys": "Move in the grid" } : { "Arrow keys": "Move in the grid", "1–9, A–Y": "Give the chosen sample this class", N: "New class", X: "None of the classes: takes the label away", Z: "Undo", "Shift+Z": "Redo" },
  };
}
