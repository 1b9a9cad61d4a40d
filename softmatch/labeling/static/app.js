// The page: screens, keys, messages.

import { page, pending, read, recover, update, watch } from "/static/server.js";
import { labelScreen } from "/static/labelling.js";
import { groupScreen, reviewScreen } from "/static/grids.js";
import { enoughScreen, trainingScreen } from "/static/training.js";
import { fail, keyOf, make, speak, warn } from "/static/parts.js";

const SCREENS = { label: labelScreen, group: groupScreen, training: trainingScreen, review: reviewScreen, enough: enoughScreen };
const TITLES = { label: "Label", group: "Group", training: "Training", review: "Review", enough: "Enough?" };
const ONLY = ["training", "review"];
const byId = (id) => document.getElementById(id);
let current = null;
let wasAway = false;
let ran = false;
let ended = false; // a training, while another screen was open

function showSaved() {
  const { state } = page;
  const saved = byId("saved");
  saved.classList.toggle("away", !page.connected);
  if (state.only) saved.textContent = "Read-only";
  else if (!page.connected) saved.textContent = pending() ? `${pending()} not saved` : "Server away";
  else saved.textContent = pending() ? "Saving…" : `${state.labeled.toLocaleString("en")} labelled, saved`;
  const away = byId("away");
  away.hidden = page.connected;
  if (page.connected) return;
  const [number, port] = [pending(), location.port === "7765" ? "" : ` and --port ${location.port}`];
  const kept = number ? ` ${number} ${number === 1 ? "act waits" : "acts wait"} in this browser and will be sent.` : "";
  const start = `The server does not answer. Start softmatch ${state.only ? "serve" : "label"} again with the same command${port}, and open the address that it prints.`;
  away.textContent = `${page.problem || start}${kept}`;
}

function showNavigation() {
  const running = page.state.runs.some((run) => run.state === "running");
  if (ran && !running) speak("The training has ended.");
  ended = ((ran && !running) || ended) && !running && current?.name !== "training";
  ran = running;
  for (const link of byId("screens").children) {
    const name = link.hash.slice(1);
    link.classList.toggle("busy", name === "training" && running);
    link.classList.toggle("ended", name === "training" && ended);
    if (name === current?.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function openScreen() {
  const allowed = page.state.only ? ONLY : Object.keys(SCREENS);
  const name = allowed.includes(location.hash.slice(1)) ? location.hash.slice(1) : allowed[0];
  current?.screen.close?.();
  const main = byId("main");
  main.replaceChildren();
  main.className = `screen ${name}`;
  byId("alert").hidden = true;
  current = { name, screen: SCREENS[name](main) };
  document.title = `${TITLES[name]} – ${page.state.title}`;
  showNavigation();
  const keys = Object.entries({ ...current.screen.help, "?": "Show this help" });
  byId("help-keys").replaceChildren(...keys.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)]));
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  if (event.key === "?") byId("help").showModal();
  else if ((event.key === "Enter" || event.key === " ") && event.target.closest("button, a, summary, input")) return;
  else if (!current.screen.press?.(keyOf(event), event)) return;
  event.preventDefault();
}

async function poll() {
  try {
    const state = await read("state");
    const changed = page.state.epoch !== undefined && state.epoch !== page.state.epoch;
    if (changed) location.reload();
    if (!pending()) page.connected = true; // else the acts that wait find out
    update(pending() ? { csrf: state.csrf } : state);
  } catch (error) { fail(error); }
}

async function begin() {
  try {
    page.state = await read("state");
  } catch (error) {
    byId("main").replaceChildren(make("p", { class: "problem" }, error.message));
    setTimeout(begin, 2000);
    return;
  }
  byId("title").textContent = page.state.title;
  byId("title").title = page.state.project || "";
  const names = page.state.only ? ONLY : Object.keys(SCREENS);
  byId("screens").append(...names.map((name) => make("a", { href: `#${name}` }, TITLES[name])));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  watch(() => {
    showSaved();
    showNavigation();
    current?.screen.refresh?.();
    if (wasAway && page.connected) current?.screen.again?.();
    wasAway = !page.connected;
  });
  if (!page.state.only) recover((error) => warn(`A label that waited in this browser was not taken: ${error.message}`));
  showSaved();
  openScreen();
  addEventListener("hashchange", openScreen);
  addEventListener("keydown", pressed);
  addEventListener("beforeunload", (event) => pending() && event.preventDefault());
  setInterval(() => document.visibilityState === "visible" && poll(), 2500);
}

begin();
