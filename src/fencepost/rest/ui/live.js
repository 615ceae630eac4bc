// The state of the group, which the worker sends as it changes, and the rates seen since the page was opened.

import { setClock } from "./format.js";

const KEPT = 300;
// A worker sends an event every few seconds. If no event arrives, the page itself reconnects, because browsers do not notice
// a frozen worker or a lost network.
const CHECK_MS = 1_000;
const SILENT_MS = 10_000;
const LOST_MS = 30_000;
const AGAIN_MS = 2_000;

// The rates begin at `since`, in ms. After an interruption, the earlier rates are dropped, because the worker's history has
// them.
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
    // The answer was not a stream, for example a proxy's error while a worker restarts. Then browsers do not reconnect by
    // themselves.
    if (source.readyState === EventSource.CLOSED) again(AGAIN_MS);
    // A single error is normal: the worker ends each stream after a while, and the browser reconnects.
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

// A browser opens at most six connections to a worker, for all its tabs. So hidden tabs, and pages that the browser keeps in
// its history, close their stream.
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
