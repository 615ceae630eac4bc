// One connector: its tasks, rates, transactions, offsets, topics and configuration.

import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { OFFSETS, api, exact, keepsNumbers, repeat } from "./api.js";
import { Configuration } from "./config.js";
import { Head, Problem, State, ago, clock, count, html, printable, size, worst } from "./format.js";
import { Logs } from "./logs.js";
import { FigurePlot, TimeLine } from "./plots.js";

const REFRESH_MS = 2000;

async function loaded(name) {
  const [info, status, activity] = await Promise.all([api.info(name), api.status(name), api.activity(name)]);
  // These requests may fail, for example while an offsets topic cannot be read. Everything else is shown nevertheless.
  const [offsets, topics] = await Promise.allSettled([api.offsets(name), api.topics(name)]);
  return {
    info, status, tasks: activity.tasks,
    offsets: offsets.status === "fulfilled" ? offsets.value.offsets : [],
    moreOffsets: offsets.status === "fulfilled" && offsets.value.next !== undefined,
    offsetsProblem: offsets.status === "fulfilled" ? "" : offsets.reason.message,
    topics: topics.status === "fulfilled" ? topics.value[name].topics : [],
  };
}

function Actions({ name, state, failed, onDone }) {
  const [told, setTold] = useState("");
  const run = (action) => () => action(name).then(() => { setTold(""); onDone(); }, (error) => setTold(error.message));
  const stop = (of) => (confirm(`Stop ${printable(of)}? Its tasks end; configuration and offsets stay.`) ? api.stop(of) : Promise.resolve());
  const remove = (of) => (confirm(`Delete ${printable(of)}? Its tasks end. Its offsets stay: a new connector with this name continues from them.`)
    ? api.remove(of).then(() => { location.hash = "#/"; }) : Promise.resolve());
  const paused = state === "PAUSED" || state === "STOPPED";
  return html`<p class="line">
    ${paused ? html`<button onClick=${run(api.resume)}>Resume</button>` : html`<button onClick=${run(api.pause)}>Pause</button>`}
    <button onClick=${run(stop)} disabled=${state === "STOPPED"}>Stop</button>
    <button onClick=${run(api.restart)} disabled=${!failed}>Restart failed parts</button>
    <button class="danger" onClick=${run(remove)}>Delete</button></p><${Problem} text=${told} />`;
}

function Tasks({ status, tasks }) {
  if (!status.tasks.length) {
    const why = status.connector.state === "STOPPED" ? "The connector is stopped: it has no tasks." : "The connector has no tasks.";
    return html`<section><h2>Tasks</h2><p>${why}</p></section>`;
  }
  const known = new Map(tasks.map((task) => [task.task, task]));
  const titles = ["task", "state", "worker", "rows/s", "rows", "sent", "lag", "skipped", "transactions", "aborted", "open since", "last commit", "restarts"];
  return html`<section><h2>Tasks</h2><table class="figures"><${Head} titles=${titles} firstNumber=${3} />
    <tbody>${status.tasks.map((task) => {
      const of = known.get(task.id);
      const figures = of ? [count(of.rate), count(of.records), size(of.bytes), count(of.lag), count(of.skipped), count(of.transactions),
        count(of.aborted), ago(of.open_since), ago(of.last_commit), count(of.restarts)] : titles.slice(3).map(() => "");
      return html`<tr key=${task.id}><th scope="row" data-label="task">${task.id}</th>
        <td data-label="state"><${State} state=${task.state} /></td><td data-label="worker"><code>${task.worker_id}</code></td>
        ${figures.map((figure, at) => html`<td data-label=${titles[at + 3]} class="number">${figure}</td>`)}</tr>`;
    })}</tbody></table></section>`;
}

function Traces({ status }) {
  const parts = [["Connector", status.connector], ...status.tasks.map((task) => [`Task ${task.id}`, task])];
  return parts.filter(([, part]) => part.trace).map(([what, part]) =>
    html`<section key=${what}><h2>${what} ${part.state === "FAILED" ? "failed" : "reports"}</h2><pre tabindex="0">${part.trace}</pre></section>`);
}

// Adds to each offset its former value and the time of the change, if it changed while the page was open.
function useBefore(offsets) {
  const seen = useRef(new Map());
  return offsets.map(({ partition, offset }) => {
    const key = JSON.stringify(partition);
    const now = JSON.stringify(offset);
    const [last, before, at] = seen.current.get(key) ?? [now, "", null];
    if (last !== now) seen.current.set(key, [now, last, Date.now()]);
    else seen.current.set(key, [now, before, at]);
    const [, former, when] = seen.current.get(key);
    return { key, now, former, when };
  });
}

// A form to change one source offset, as JSON. An empty field removes the offset.
function OffsetForm({ row, stopped, onSave, onEnd }) {
  const [text, setText] = useState(row.now);
  const [opened, setOpened] = useState(row.now);
  const [saving, setSaving] = useState(false);
  const save = (event) => {
    event.preventDefault();
    let offset;
    try {
      offset = text.trim() ? exact(text) : null;
    } catch (error) {
      onEnd(`This is not JSON: ${error.message}`);
      return;
    }
    if (offset === null && !confirm(`Remove the offset of ${printable(row.key)}? This source partition is read from its start again.`)) return;
    setSaving(true);
    onSave([{ partition: exact(row.key), offset }]).finally(() => setSaving(false));
  };
  return html`${row.now === opened ? null : html`<p class="problem" role="alert">Meanwhile this offset became <code>${row.now}</code>.${" "}
      <button type="button" class="small" onClick=${() => setOpened(row.now)}>Change it nevertheless</button></p>`}
    ${stopped ? null : html`<p class="problem" role="alert">The connector is not stopped any more. Stop it to save this offset.</p>`}
    <form class="line" onSubmit=${save}><label>Offset of <code>${row.key}</code>
    <textarea rows="3" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
    <button disabled=${saving || !stopped || row.now !== opened}>Save this offset</button><button type="button" onClick=${() => onEnd("")}>Cancel</button></form>`;
}

function Offsets({ name, state, offsets, more, problem, onDone }) {
  const rows = useBefore(offsets);
  const [edited, setEdited] = useState(null);
  const [told, setTold] = useState("");
  const changeable = state === "STOPPED" && keepsNumbers;
  const end = (text) => { setTold(text); if (!text) setEdited(null); };
  const after = (request) => request.then((answer) => { setEdited(null); setTold(answer?.message ?? ""); onDone(); },
    (error) => setTold(error.message));
  const reset = () => {
    if (confirm(`Reset all offsets of ${printable(name)}? Its source is read from its start again.`)) after(api.resetOffsets(name));
  };
  const row = rows.find((each) => each.key === edited);
  return html`<section><h2>Offsets</h2><${Problem} text=${problem} />
    ${rows.length ? html`<table><thead><tr>${["source partition", "before", "committed", "changed", ""].map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
    <tbody>${rows.map((each) => html`<tr key=${each.key}><th scope="row"><code>${each.key}</code></th>
      <td data-label="before">${each.former ? html`<code>${each.former}</code>` : null}</td><td data-label="committed"><code>${each.now}</code></td>
      <td data-label="changed">${each.when === null ? "" : clock(each.when)}</td>
      <td>${changeable ? html`<button class="small" onClick=${() => setEdited(each.key)} aria-label=${`Edit the offset of ${each.key}`}>edit</button>` : null}</td></tr>`)}</tbody></table>` : html`<p>${problem ? null : "No offset is committed yet."}</p>`}
    ${more ? html`<p class="doc">These are the first ${OFFSETS}. The REST API has all of them.</p>` : null}
    ${keepsNumbers && row ? html`<${OffsetForm} key=${row.key} row=${row} stopped=${state === "STOPPED"} onSave=${(changes) => after(api.alterOffsets(name, changes))} onEnd=${end} />` : null}
    <p class="line">${changeable ? html`<button class="danger" disabled=${!rows.length} onClick=${reset}>Reset all offsets</button>`
      : html`<span class="doc">${keepsNumbers ? "Stop the connector to change its offsets."
        : "This browser rounds long numbers: change offsets by the REST API, or with a newer browser."}</span>`}<span role="status">${told}</span></p></section>`;
}

// Adds a gap where two points are more than two steps apart: no worker recorded figures there.
function withGaps(points, seconds) {
  return points.flatMap((point, at) => (at && point[0] - points[at - 1][0] > 2.5 * seconds
    ? [[points[at - 1][0] + seconds, null, null], point] : [point]));
}

// Plots of the workers' history, the hour before this page was opened, and of the figures that the page got every two
// seconds since then.
function Figures({ name, live }) {
  const [past, setPast] = useState({ history: [], seconds: 20 });
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let current = true;
    api.history(name).then((found) => { if (current) setPast(found); }, (error) => { if (current) setProblem(error.message); });
    return () => { current = false; };
  }, [name, live.since]);
  const seen = live.rates.get(name) ?? [];
  const opened = seen.length ? seen[0][0] : Infinity;
  const all = withGaps([...past.history.filter(([at]) => at < opened), ...seen], past.seconds);
  const lags = all.filter(([, , lag]) => typeof lag === "number");
  return html`<section><h2>Rows per second</h2><${Problem} text=${problem} />
    ${all.length > 1 ? html`<${FigurePlot} seen=${all} label="Rows per second in the last hour" />` : html`<p>Wait a moment.</p>`}</section>
    ${lags.some(([, , lag]) => lag > 0) ? html`<section><h2>Lag</h2>
      <${FigurePlot} seen=${all.map(([at, , lag]) => [at, lag])} label="Lag in the last hour" /></section>` : null}`;
}

export function Connector({ name, live }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  const look = () => loaded(name).then((all) => { setFound(all); setProblem(""); }, (error) => setProblem(error.message));
  useEffect(() => {
    setFound(null);
    return repeat(look, REFRESH_MS);
  }, [name]);
  if (found === null) {
    return html`<h1>${name}</h1>${problem ? html`<${Problem} text=${problem} />` : html`<p role="status">Asking the worker ...</p>`}`;
  }
  const { info, status, tasks } = found;
  // As in the overview, a running connector with a failed task is shown as FAILED, because records are missing.
  const state = worst({ state: status.connector.state, tasks: status.tasks });
  return html`<h1>${name} <${State} state=${state} /></h1>
    <p><code>${info.config["connector.class"]}</code>${status.connector.version ? ` ${status.connector.version}` : ""} on <code>${status.connector.worker_id}</code></p>
    <${Problem} text=${problem} /><${Actions} name=${name} state=${status.connector.state}
      failed=${state === "FAILED"} onDone=${look} />
    <${Problem} text=${live.rows.get(name)?.error} /><${Traces} status=${status} /><${Tasks} status=${status} tasks=${tasks} />
    ${tasks.length ? html`<section><h2>Transactions</h2><${TimeLine} key=${tasks.map((task) => task.task).join()} tasks=${tasks} /></section>` : null}
    <${Figures} name=${name} live=${live} />
    <section><h2>Topics</h2>${found.topics.length ? null : html`<p>It is not known to have written to a topic.</p>`}<ul class="plain">${found.topics.map((topic) => html`<li key=${topic}>
      <a href="#/topics/${encodeURIComponent(topic)}">${topic}</a>: its last records, and the transactions that hide records from readers</li>`)}</ul></section>
    <${Offsets} name=${name} state=${status.connector.state} offsets=${found.offsets} more=${found.moreOffsets} problem=${found.offsetsProblem} onDone=${look} />
    <${Logs} name=${name} />
    <${Configuration} name=${name} config=${info.config} />`;
}
