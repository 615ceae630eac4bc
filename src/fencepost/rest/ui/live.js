// The state of the group, which the worker sends as it changes, and the rates seen since the page was opened.

import { setClock } from "./format.js";

const KEPT = 300;
// A worker sends something every few seconds. Browsers notice neither that it is frozen nor that the network is gone.
const CHECK_MS = 1_000;
const SILENT_MS = 10_000;
const LOST_MS = 30_000;
const AGAIN_MS = 2_000;

// `since`: when the rates begin, in ms. Those before a break are dropped: the worker's history has them.
export const live = {
  group: null, rows: new Map(), rates: new Map(), since: null, problem: "", connected: false, heard: null,
};
const listeners = new Set();
let latest = null;
let end = null;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell() {
  for (const listener of listeners) listener();
}

function apply(event) {
  const { rows, whole, problem, ...group } = event;
  live.problem = problem ?? "";
  live.heard = Date.now();
  setClock(event.now);
  if (problem === undefined) {
    live.group = group;
    if (latest === null || event.now - latest > SILENT_MS) {
      live.rates.clear();
      live.since = event.now;
    }
    latest = event.now;
    if (whole) live.rows = new Map();
    for (const [name, row] of Object.entries(rows)) {
      if (row === null) live.rows.delete(name);
      else live.rows.set(name, row);
    }
    for (const [name, row] of live.rows) {
      const seen = live.rates.get(name) ?? [];
      seen.push([event.now / 1000, row.rate, row.lag]);
      if (seen.length > KEPT) seen.shift();
      live.rates.set(name, seen);
    }
  }
  tell();
}

function setConnected(connected) {
  if (live.connected === connected) return;
  live.connected = connected;
  tell();
}

function connect() {
  const source = new EventSource("api/events");
  let heard = performance.now();
  let errors = 0;
  const close = () => {
    clearInterval(checking);
    source.close();
  };
  const again = (ms) => {
    close();
    setConnected(false);
    const timer = setTimeout(() => { end = connect(); }, ms);
    end = () => clearTimeout(timer);
  };
  const checking = setInterval(() => {
    const silent = performance.now() - heard;
    if (silent > LOST_MS) again(0);
    else if (silent > SILENT_MS) setConnected(false);
  }, CHECK_MS);
  source.onerror = () => {
    errors += 1;
    // An answer other than a stream, as proxies give while a worker restarts: browsers do not ask again by themselves.
    if (source.readyState === EventSource.CLOSED) again(AGAIN_MS);
    // The worker ends each stream after a while, which is followed by a new one.
    else if (errors > 1) setConnected(false);
  };
  source.onmessage = (message) => {
    heard = performance.now();
    errors = 0;
    live.connected = true;
    apply(JSON.parse(message.data));
  };
  return close;
}

// A browser opens six connections to a worker, for all tabs. One that nobody sees, or that its history keeps, holds none.
function onVisibility() {
  if (!document.hidden) end ??= connect();
  else if (end !== null) {
    end();
    end = null;
  }
}

export function follow() {
  document.addEventListener("visibilitychange", onVisibility);
  onVisibility();
}
