// All connectors of the group, failed ones first.

import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { Head, State, ago, clock, count, html, many, rank, worst } from "./format.js";

const COLUMNS = ["connector", "state", "tasks", "rows/s", "rows", "lag", "skipped", "open since", "last commit"];

function tasksOf(row) {
  const running = row.tasks.filter((task) => task.state === "RUNNING").length;
  return row.tasks.length ? `${running} of ${row.tasks.length}` : "none";
}

function Row({ row }) {
  const cells = [
    html`<${State} state=${worst(row)} />`, tasksOf(row), count(row.rate), count(row.records), count(row.lag),
    count(row.skipped), ago(row.open_since), ago(row.last_commit),
  ];
  return html`<tr class=${worst(row) === "FAILED" ? "failed" : ""}>
    <th scope="row"><a href="#/connectors/${encodeURIComponent(row.name)}">${row.name}</a>
      ${row.error ? html`<div class="error">${row.error}</div>` : null}</th>
    ${cells.map((cell, at) => html`<td data-label=${COLUMNS[at + 1]} class=${at > 1 ? "number" : ""}>${cell}</td>`)}
  </tr>`;
}

function Summary({ live }) {
  const rows = [...live.rows.values()].sort((a, b) => rank(a) - rank(b));
  const states = {};
  for (const row of rows) states[worst(row)] = (states[worst(row)] ?? 0) + 1;
  const rate = rows.reduce((sum, row) => sum + row.rate, 0);
  const workers = Object.keys(live.group.workers).length;
  return html`<div class="tiles">
    <div><b>${count(rows.length)}</b> ${rows.length === 1 ? "connector" : "connectors"}</div>
    ${Object.entries(states).map(([state, number]) => html`<div><b>${number}</b> <${State} state=${state} /></div>`)}
    <div><b>${count(rate)}</b> rows/s</div>
    <div><b>${count(workers)}</b> ${workers === 1 ? "worker" : "workers"}</div>
  </div>`;
}

function Workers({ group }) {
  return html`<section><h2>Workers</h2><ul class="plain">
    ${Object.entries(group.workers).map(([id, worker]) => html`<li><code>${id}</code>: ${
      many(worker.connectors, "connector")}, ${many(worker.tasks, "task")}${
      worker.version === null ? "" : `, version ${worker.version}, up for ${ago(worker.started)}`}${
      id === group.worker_id ? " (this one)" : ""}</li>`)}
    ${Object.entries(group.silent).map(([id, why]) => html`<li class="error"><code>${id}</code>: ${why}</li>`)}
  </ul></section>`;
}

function told(event) {
  const took = `, ${event.seconds} s`;
  if (event.kind === "rebalance") return `${many(event.count, "rebalance")}, now generation ${event.generation}${took}`;
  return `${many(event.count, "fencing round")}${event.failed ? `, ${event.failed} failed` : ""}${took}`;
}

// Only the leader knows the fencing rounds, so the pages of other workers link to the leader's page.
function Leader({ group }) {
  const { leader } = group.membership;
  if (!leader || !/^https?:/.test(leader)) return html`no worker leads`;
  if (new URL(leader).host === group.worker_id) return html`led by this worker`;
  return html`led by <a href=${new URL("ui/", leader).href}>${leader}</a>, whose page shows fencing rounds`;
}

function GroupEvents({ group }) {
  const { generation, rebalancing, events } = group.membership;
  return html`<section><h2>Rebalances and fencing rounds</h2>
    <p>Generation ${generation}, <${Leader} group=${group} />${rebalancing ? html`. <b role="status">Rebalancing now</b>` : null}.</p>
    <ul class="plain events">${events.slice(0, 20).map((event) => html`<li key=${`${event.kind} ${event.at}`}>
      ${event.at === null ? "earlier" : clock(event.at)}: ${told(event)}</li>`)}</ul></section>`;
}

function TopicQuestion() {
  const [topic, setTopic] = useState("");
  const ask = (event) => {
    event.preventDefault();
    if (topic.trim()) location.hash = `#/topics/${encodeURIComponent(topic.trim())}`;
  };
  return html`<section><h2>Look into a topic</h2>
    <form class="line" onSubmit=${ask}>
      <label>Topic <input value=${topic} onInput=${(event) => setTopic(event.target.value)} /></label>
      <button>Look</button><span class="doc">Its last records, and the transactions that hide records from readers</span>
    </form></section>`;
}

// The filter, which is kept while another view is shown.
let lastFilter = "";

export function Overview({ live }) {
  const [filter, setFilter] = useState(lastFilter);
  lastFilter = filter;
  const field = useRef(null);
  useEffect(() => {
    const onKey = (event) => {
      if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        field.current?.focus();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const wanted = filter.toLowerCase();
  const rows = [...live.rows.values()]
    .filter((row) => !wanted || `${row.name} ${row.class} ${worst(row)}`.toLowerCase().includes(wanted))
    .sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  return html`<${Summary} live=${live} />
    <label class="filter">Filter <kbd>/</kbd>
      <input ref=${field} type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
    <p><a class="create" href="#/create">Create a connector</a></p>
    ${rows.length ? html`<table class="connectors figures"><${Head} titles=${COLUMNS} firstNumber=${3} />
      <tbody>${rows.map((row) => html`<${Row} key=${row.name} row=${row} />`)}</tbody></table>`
      : html`<p>${live.rows.size ? "No connector matches." : "There are no connectors yet."}</p>`}
    <${TopicQuestion} /><${Workers} group=${live.group} />
    ${live.group.membership ? html`<${GroupEvents} group=${live.group} />` : null}`;
}
