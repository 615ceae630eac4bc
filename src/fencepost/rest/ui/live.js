// The state of the group, which the worker sends as it changes, and the rates seen since the page was opened.

const KEPT = 300;

export const live = { group: null, rows: new Map(), rates: new Map(), problem: "", connected: false };
const listeners = new Set();

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
  if (problem === undefined) {
    live.group = group;
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

export function connect() {
  const source = new EventSource("api/events");
  source.onopen = () => { live.connected = true; tell(); };
  source.onerror = () => { live.connected = false; tell(); };
  source.onmessage = (message) => apply(JSON.parse(message.data));
}
