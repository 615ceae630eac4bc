// Requests to the worker: the REST API above this folder, and what only the page needs below api/.

const LOOK_SECONDS = 30;

export const OFFSETS = 200;

export class Refused extends Error {}

// Whether this browser keeps numbers as they are written: 1.0 stays 1.0, and a long beyond 2^53 is not rounded.
export const keepsNumbers = typeof JSON.rawJSON === "function";

export function exact(text) {
  if (!keepsNumbers) return JSON.parse(text);
  return JSON.parse(text, (key, value, context) => (typeof value === "number" ? JSON.rawJSON(context.source) : value));
}

async function request(method, path, body, parse = JSON.parse) {
  const options = { method, headers: { Accept: "application/json" } };
  if (method === "GET") options.signal = AbortSignal.timeout(LOOK_SECONDS * 1000);
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    // The address of the page without the user and password that it may have been opened with: fetch refuses these.
    response = await fetch(new URL(path, location.href), options);
  } catch {
    throw new Refused("The worker does not answer");
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? parse(text) : null;
  } catch {
    throw new Refused(`The worker answered something else than JSON (status ${response.status})`);
  }
  if (!response.ok) throw new Refused(answer?.message ?? `Status ${response.status}`);
  return answer;
}

// Looks now, and again some time after the end of each look, so that a slow worker gets no second question meanwhile.
// Returns what ends it.
export function repeat(look, ms) {
  let timer = null;
  let ended = false;
  const wait = () => { timer = setTimeout(() => (document.hidden ? wait() : run()), ms); };
  const run = () => look().finally(() => { if (!ended) wait(); });
  run();
  return () => { ended = true; clearTimeout(timer); };
}

const part = encodeURIComponent;
const connector = (name, rest = "") => `../connectors/${part(name)}${rest}`;

export const api = {
  root: () => request("GET", "../"),
  plugins: () => request("GET", "../connector-plugins"),
  create: (name, config) => request("POST", "../connectors", { name, config }),
  remove: (name) => request("DELETE", connector(name)),
  info: (name) => request("GET", connector(name)),
  status: (name) => request("GET", connector(name, "/status")),
  // A connector may have tens of thousands: the page asks again every two seconds.
  offsets: (name) => request("GET", connector(name, `/offsets?limit=${OFFSETS}`), undefined, exact),
  alterOffsets: (name, offsets) => request("PATCH", connector(name, "/offsets"), { offsets }),
  resetOffsets: (name) => request("DELETE", connector(name, "/offsets")),
  topics: (name) => request("GET", connector(name, "/topics")),
  activity: (name) => request("GET", `api/connectors/${part(name)}`),
  history: (name) => request("GET", `api/connectors/${part(name)}/history`),
  logs: (name) => request("GET", `api/connectors/${part(name)}/logs`),
  pause: (name) => request("PUT", connector(name, "/pause")),
  resume: (name) => request("PUT", connector(name, "/resume")),
  stop: (name) => request("PUT", connector(name, "/stop")),
  restart: (name) => request("POST", connector(name, "/restart?includeTasks=true&onlyFailed=true")),
  configure: (name, config) => request("PUT", connector(name, "/config"), config),
  validate: (plugin, config) => request("PUT", `../connector-plugins/${part(plugin)}/config/validate`, config),
  topic: (name) => request("GET", `api/topics/${part(name)}`),
  records: (name, count, connector) => request("GET",
    `api/topics/${part(name)}/records?count=${count}${connector === undefined ? "" : `&connector=${part(connector)}`}`),
  abort: (id) => request("PUT", `api/transactions/${part(id)}/abort`),
};
