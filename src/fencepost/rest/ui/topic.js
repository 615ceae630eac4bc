// A topic: the offsets up to which read_committed consumers can read, its last records, and the open transactions that hide
// later records.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api, repeat } from "./api.js";
import { Head, Problem, ago, clock, count, html, many, printable, span } from "./format.js";

const REFRESH_MS = 3000;

function Transaction({ transaction, hidden, onAbort }) {
  const [aborting, setAborting] = useState(false);
  const abort = () => { setAborting(true); onAbort().finally(() => setAborting(false)); };
  const owner = transaction.connector === null
    ? "no task of this group"
    : html`task ${transaction.task} of <a href="#/connectors/${encodeURIComponent(transaction.connector)}">${
        transaction.connector}</a>`;
  return html`<article class="card">
    <h3><code>${transaction.transactional_id}</code></h3>
    <p>Open for <b>${ago(transaction.since_ms)}</b>, since ${clock(transaction.since_ms)}, by ${owner}${" "}
      (producer id ${transaction.producer_id}, epoch ${transaction.producer_epoch}, ${transaction.state}).
      It hides ${many(hidden, "offset")} in ${transaction.partitions.length === 1 ? "partition" : "partitions"} ${transaction.partitions.join(", ")}.
      The broker aborts it ${span(transaction.timeout_ms / 1000)} after it began.</p>
    <button class="danger" disabled=${aborting} onClick=${abort}>${aborting ? "Aborting ..." : "Abort this transaction"}</button>
  </article>`;
}

const COUNTS = [10, 20, 50, 100];

// Producers set timestamps freely, so some are outside of the range of Date.
const time = (ms) => (ms < 0 ? "none" : ms > 8.64e15 ? `${ms}` : clock(ms));

// A key or value. The worker sends it as text, also JSON, so that no number is rounded. It is never interpreted as HTML.
// Long texts scroll.
function Data({ text, cut }) {
  if (text === null) return html`<span class="doc">null</span>`;
  return html`<div class="data" tabindex=${text.length > 300 ? 0 : null}><code>${text}</code>${
    cut ? html`<span class="doc"> ... (cut)</span>` : null}</div>`;
}

function Record({ record }) {
  const { headers, cut } = record;
  return html`<tr><th scope="row">${record.partition}@${record.offset}</th>
    <td data-label="time">${time(record.timestamp)}</td>
    <td data-label="key"><${Data} text=${record.key} cut=${cut.includes("key")} /></td>
    <td data-label="value"><${Data} text=${record.value} cut=${cut.includes("value")} />
      ${headers.length ? html`<details class="headers"><summary>${many(headers.length, "header")}</summary>${headers.map(([name, value]) =>
        html`<p><code>${name}</code>: <code>${value ?? "null"}</code></p>`)}${cut.includes("headers") ? html`<p class="doc">Some headers are cut, or not shown.</p>` : null}</details>` : null}</td></tr>`;
}

// The records are read once, and again only when the user asks for it: otherwise they would move while somebody reads them.
function Records({ name }) {
  const [wanted, setWanted] = useState({ count: 20, connector: undefined });
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  const [asking, setAsking] = useState(false);
  const [filter, setFilter] = useState("");
  const look = (asked) => {
    setWanted(asked);
    setAsking(true);
    return api.records(name, asked.count, asked.connector).then((answer) => { setFound(answer); setProblem(""); },
      (error) => setProblem(error.message)).finally(() => setAsking(false));
  };
  useEffect(() => { look(wanted); }, [name]);
  const text = filter.toLowerCase();
  const shown = found === null ? [] : found.records.filter((record) => !text || [record.key, record.value, ...record.headers.flat()]
    .some((part) => part !== null && part.toLowerCase().includes(text)));
  return html`<section><h2>Last records</h2><${Problem} text=${problem} />
    <p class="line"><label class="short">Show <select value=${wanted.count} onChange=${(event) => look({ ...wanted, count: Number(event.target.value) })}>
        ${COUNTS.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      ${found !== null && found.connectors.length > 1 ? html`<label class="short">as written by <select value=${found.connector}
        onChange=${(event) => look({ ...wanted, connector: event.target.value })}>${found.connectors.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>` : null}
      <label>Filter <input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
      <button disabled=${asking} onClick=${() => look(wanted)}>${asking ? "Reading ..." : "Read again"}</button></p>
    ${found === null ? null : html`
      ${found.complete ? null : html`<p class="doc">The records are large or many: these are the last ones that were read within the limits.</p>`}
      ${found.skipped.map((each) => html`<p class="doc" key=${`${each.partition}@${each.first_offset}`}>Not shown: ${each.partition}@${
        each.first_offset}${each.last_offset > each.first_offset ? ` to ${each.last_offset}` : ""}. ${each.reason}.</p>`)}
      ${shown.length ? html`<table class="records"><${Head} titles=${["record", "time", "key", "value"]} firstNumber=${4} />
        <tbody>${shown.map((record) => html`<${Record} key=${`${record.partition}@${record.offset}`} record=${record} />`)}</tbody></table>`
        : html`<p>${found.records.length ? "No record matches." : "There are no records that read_committed consumers see."}</p>`}`}</section>`;
}

export function Topic({ name }) {
  const [view, setView] = useState(null);
  const [problem, setProblem] = useState("");
  const look = () => api.topic(name).then((found) => { setView(found); setProblem(""); },
    (error) => setProblem(error.message));
  useEffect(() => repeat(look, REFRESH_MS), [name]);
  const abort = async (id) => {
    if (!confirm(`Abort the transaction of ${printable(id)}? Its producer is fenced: a running task that uses it fails or restarts.`)) return;
    try {
      await api.abort(id);
      await look();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const hidden = view ? view.partitions.filter((each) => each.end > each.stable) : [];
  const hiddenIn = (numbers) =>
    hidden.filter((each) => numbers.includes(each.partition)).reduce((sum, each) => sum + each.end - each.stable, 0);
  return html`<h1>Topic ${name}</h1><${Problem} text=${problem} />
    ${view === null ? (problem ? null : html`<p role="status">Asking the brokers ...</p>`) : html`
      <p class="answer">${hidden.length
        ? `Readers at read_committed do not see the last ${many(hiddenIn(hidden.map((each) => each.partition)), "offset")} yet.`
        : "Readers at read_committed see everything: no open transaction hides records."}</p>
      ${hidden.length && !view.transactions.length ? html`<p>No coordinator knows the open transaction. It may have just
        ended. If it hangs, <code>fencepost transactions abort --topic</code> ends it.</p>` : null}
      ${view.transactions.map((each) => html`<${Transaction} key=${each.transactional_id} transaction=${each}
        hidden=${hiddenIn(each.partitions)} onAbort=${() => abort(each.transactional_id)} />`)}
      <table class="figures"><${Head} titles=${["partition", "readers see up to", "end", "hidden"]} firstNumber=${1} /><tbody>
        ${view.partitions.map((each) => html`<tr key=${each.partition}><th scope="row" data-label="partition">${each.partition}</th>
          <td data-label="readers see up to" class="number">${count(each.stable)}</td>
          <td data-label="end" class="number">${count(each.end)}</td>
          <td data-label="hidden" class="number">${count(each.end - each.stable)}</td></tr>`)}</tbody></table>
      <${Records} name=${name} />`}`;
}
