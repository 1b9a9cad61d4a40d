// Small parts that all screens use: elements, class buttons and their keys, samples, messages.

import { Away, page, save } from "/static/server.js";

const LETTERS = "123456789abcdefghijklmopqrtuvwy"; // without n, s, x and z, which have meanings of their own
export const classKey = (place) => LETTERS[place] ?? "";
export const keyOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u202f%`;
export const counted = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function speak(text) {
  document.getElementById("spoken").textContent = text;
}

export function warn(text) {
  const box = document.getElementById("alert");
  box.textContent = text;
  box.hidden = !text;
}

/** Say what has failed. That the server is away is said by the page as a whole, until it is back. */
export function fail(error) {
  if (!(error instanceof Away)) warn(error.message);
}

export const classOf = (key) => {
  const place = key.length === 1 ? LETTERS.indexOf(key) : -1;
  return place >= 0 ? page.state.classes[place]?.name : undefined;
};

export function classButtons(choose, pressed) {
  return page.state.classes.map(({ name, count }, place) => make(
    "button",
    { type: "button", class: "class", title: name, "aria-pressed": pressed === undefined ? null : String(pressed === name), onclick: () => choose(name) },
    make("kbd", { "aria-hidden": "true" }, classKey(place).toUpperCase()),
    make("span", { class: "name" }, name),
    make("span", { class: "count", "aria-label": `${count} labelled` }, counted(count)),
  ));
}

/** The picture, text or cells of a sample; `small` in a grid. */
export function sampleView(sample, small = false) {
  if (page.state.kind === "image" && sample.id !== null && sample.id !== undefined) {
    return pictureOf(sample, small);
  }
  if (page.state.kind === "sound" && sample.id !== null && sample.id !== undefined) {
    if (small) return pictureOf(sample, small);
    return make("div", { class: "recording" }, pictureOf(sample),
      make("audio", { controls: "", preload: "auto", "aria-label": sample.name, src: `/sound/${sample.id}?of=${page.state.epoch ?? ""}` }));
  }
  if (sample.text !== undefined) return make("div", { class: "text", dir: "auto", tabindex: small ? null : "0" }, sample.text);
  if (sample.cells) return cellTable(sample.cells);
  return make("div", { class: "text" }, sample.name);
}

/** An image that says so if its file cannot be read, and tries again if the server cannot be reached. */
export function pictureOf(sample, small = false) {
  const image = make("img", { alt: sample.name, draggable: "false", decoding: small ? "async" : null });
  const address = `/image/${sample.id}?side=${small ? 160 : 1200}&of=${page.state.epoch ?? ""}`;
  image.addEventListener("load", () => {
    const side = Math.max(image.naturalWidth, image.naturalHeight);
    image.classList.toggle("tiny", side < 200);
    image.classList.toggle("pixels", side <= 64);
  });
  image.addEventListener("error", async () => {
    const answer = await fetch(address).catch(() => null);
    if (answer && !answer.ok) {
      const problem = make("p", { class: "problem" }, `${sample.name} cannot be read.${small ? "" : " Skip it with S."}`);
      if (sample.view === image) sample.view = problem; // it was fetched ahead, and is not in the page yet
      image.replaceWith(problem);
    } else setTimeout(() => { image.src = address; }, 1000);
  });
  image.src = address;
  return image;
}

export function cellTable(cells) {
  return make("table", { class: "cells" }, make("tbody", {}, ...Object.entries(cells).map(
    ([name, cell]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { dir: "auto" }, cell)))));
}

/** Rename a class; a name that exists merges both classes, which is asked once. Resolves when the server has answered. */
export function renameClass(first) {
  const [dialog, form, old, input, problem, ok, cancel] = ["", "-form", "-old", "-new", "-problem", "-ok", "-cancel"].map((part) => document.getElementById(`renaming${part}`));
  const known = (name) => page.state.classes.find((each) => each.name.toLowerCase() === name.toLowerCase() && each.name !== old.value);
  document.getElementById("naming-known").replaceChildren(...page.state.classes.map(({ name }) => make("option", { value: name })));
  old.replaceChildren(...page.state.classes.map(({ name }) => make("option", { value: name, selected: name === first }, name)));
  let merge = null;
  const ask = (other) => {
    merge = other;
    ok.textContent = other ? "Merge" : "Rename";
    problem.textContent = other ? `${other.name} exists, with ${counted(other.count)} samples. Merge ${old.value} into it? Undo takes it back.` : "";
  };
  input.value = "";
  ask(null);
  old.onchange = input.oninput = () => ask(null);
  dialog.showModal();
  input.focus();
  return new Promise((done) => {
    const end = (act) => { dialog.onclose = null; dialog.close(); done(act); };
    form.onsubmit = (event) => {
      event.preventDefault();
      const name = input.value.trim();
      const other = known(name);
      if (!name || name === old.value) problem.textContent = "Give the class another name.";
      else if (other && !merge) ask(other);
      else end(save({ how: "rename", old: old.value, label: name, merge: Boolean(other) }, fail).then(() => speak(`${old.value} is now ${other?.name ?? name}.`)));
    };
    cancel.onclick = () => end(null);
    dialog.onclose = () => end(null);
  });
}

/** Ask for the name of a class, new or known; null where the user changes their mind. */
export function askName() {
  const dialog = document.getElementById("naming");
  const [input, problem] = ["naming-name", "naming-problem"].map((id) => document.getElementById(id));
  document.getElementById("naming-known").replaceChildren(...page.state.classes.map(({ name }) => make("option", { value: name })));
  input.value = "";
  problem.textContent = "";
  dialog.showModal();
  input.focus();
  return new Promise((done) => {
    const end = (name) => { dialog.close(); dialog.onclose = null; done(name); };
    document.getElementById("naming-form").onsubmit = (event) => {
      event.preventDefault();
      const name = input.value.trim();
      if (name) end(name);
      else problem.textContent = "Give the class a name.";
    };
    document.getElementById("naming-cancel").onclick = () => end(null);
    dialog.onclose = () => end(null);
  });
}
