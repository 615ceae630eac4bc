// Requests to the worker: to the REST API, one folder above this page, and to api/, whose answers only the page needs.

const LOOK_SECONDS = 30;

export const OFFSETS = 200;

export class Refused extends Error {}

// Whether this browser can keep the digits of JSON numbers: 1.0 stays 1.0, and a long beyond 2^53 is not rounded.
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
    // location.href has no user and password, even if the page was opened with them: fetch would refuse such a URL.
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

// Calls `look` now, and again `ms` after each call has ended, so that a slow worker never gets two requests at once. Returns
// a function that ends the calls.
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
  // A limit, because a connector may have tens of thousands of offsets, and the page requests them every two seconds.
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
