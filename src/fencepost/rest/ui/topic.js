// What read_committed consumers can read of a topic, and the transactions that hide the rest.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api, repeat } from "./api.js";
import { Head, Problem, ago, clock, count, html, span } from "./format.js";

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
      It hides ${count(hidden)} offsets in partition ${transaction.partitions.join(", ")}.
      The broker aborts it ${span(transaction.timeout_ms / 1000)} after it began.</p>
    <button class="danger" disabled=${aborting} onClick=${abort}>${aborting ? "Aborting ..." : "Abort this transaction"}</button>
  </article>`;
}

export function Topic({ name }) {
  const [view, setView] = useState(null);
  const [problem, setProblem] = useState("");
  const look = () => api.topic(name).then((found) => { setView(found); setProblem(""); },
    (error) => setProblem(error.message));
  useEffect(() => repeat(look, REFRESH_MS), [name]);
  const abort = async (id) => {
    if (!confirm(`Abort the transaction of ${id}? Its producer is fenced; a running task of it fails or restarts.`)) return;
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
        ? `Readers at read_committed stop before ${count(hiddenIn(hidden.map((each) => each.partition)))} offsets.`
        : "Readers at read_committed see everything: no open transaction hides records."}</p>
      ${hidden.length && !view.transactions.length ? html`<p>No coordinator names an open transaction: it may have just
        ended, or hang; then <code>fencepost transactions abort --topic</code> ends it.</p>` : null}
      ${view.transactions.map((each) => html`<${Transaction} key=${each.transactional_id} transaction=${each}
        hidden=${hiddenIn(each.partitions)} onAbort=${() => abort(each.transactional_id)} />`)}
      <table><${Head} titles=${["partition", "readers see up to", "end", "hidden"]} firstNumber=${1} /><tbody>
        ${view.partitions.map((each) => html`<tr key=${each.partition}><th scope="row">${each.partition}</th>
          <td data-label="readers see up to" class="number">${count(each.stable)}</td>
          <td data-label="end" class="number">${count(each.end)}</td>
          <td data-label="hidden" class="number">${count(each.end - each.stable)}</td></tr>`)}</tbody></table>`}`;
}
