// Requests to the server, and acts that wait until they are on its disk. A repeated request is written once.

export const page = { state: null, connected: true };
const listeners = new Set();
// crypto.randomUUID is for encrypted pages and this machine only; a phone in the network has neither.
const unique = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
export const tab = unique();

export function watch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function update(state) {
  page.state = { ...page.state, ...state };
  listeners.forEach((listener) => listener());
}

export class Refused extends Error {}
export class Away extends Error {}

async function ask(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) { // the browser says little: "Failed to fetch"
    page.connected = false;
    page.problem = "";
    update({});
    throw new Away("The server does not answer.", { cause: error });
  }
}

async function answered(response) {
  if (response.status === 403) {
    Object.assign(page, { connected: false, problem: "The server was started again. Open the new address that it has printed." });
    update({});
    throw new Away(page.problem);
  }
  const found = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) throw Object.assign(new Refused(found.error), { code: response.status });
  return found;
}

export async function read(name, values = {}) {
  return answered(await ask(`/api/${name}?${new URLSearchParams(values)}`, { cache: "no-store" }));
}

export async function send(name, values) {
  const headers = { "content-type": "application/json", "x-softmatch": page.state.csrf };
  return answered(await ask(`/api/${name}`, { method: "POST", headers, body: JSON.stringify(values) }));
}

/* ---- acts ---- */

const waiting = []; // acts that the server has not acknowledged, the oldest first
let sending = null;
const place = () => `softmatch ${page.state.project}`; // what a tab keeps is under its own name: tabs do not overwrite each other
export const pending = () => waiting.length;

function keep() {
  if (waiting.length) localStorage.setItem(`${place()} ${tab}`, JSON.stringify(waiting.map(({ act }) => act)));
  else localStorage.removeItem(`${place()} ${tab}`);
}

/** Acts of earlier pages that were never acknowledged: after a crash of browser or server. */
export function recover(refused) {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(place()));
  for (const act of names.flatMap((name) => JSON.parse(localStorage.getItem(name)))) waiting.push({ act, refused });
  keep();
  names.forEach((name) => localStorage.removeItem(name));
  return waiting.length ? flush() : null;
}

/** Save an act; `refused` is called if the server does not take it. */
export function save(act, refused = () => {}) {
  waiting.push({ act: { request: unique(), epoch: page.state.epoch, ...act }, refused });
  keep();
  update({});
  return flush();
}

/** Send all acts in their order; resolves when they are on disk. A server that is away is asked again. */
export function flush() {
  sending ??= sendAll().finally(() => { sending = null; });
  return sending;
}

async function sendAll() {
  while (waiting.length) {
    const { act, refused } = waiting[0];
    try {
      const state = await send("act", act);
      waiting.shift();
      keep();
      page.connected = true;
      update(state);
    } catch (error) {
      if (!(error instanceof Refused) || error.code >= 500) { // it may work later
        page.connected = false;
        page.problem = error instanceof Refused ? error.message : page.problem;
        update({});
        await new Promise((done) => setTimeout(done, 1000));
        continue;
      }
      waiting.shift();
      keep();
      refused(error);
      update({});
    }
  }
}

export async function turn(how) {
  await flush();
  const found = await send("turn", { request: unique(), epoch: page.state.epoch, how });
  update(found);
  return found;
}
