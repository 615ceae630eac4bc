// The last log lines of all workers about a connector.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api, repeat } from "./api.js";
import { Problem, clock, html } from "./format.js";

const REFRESH_MS = 5000;
const SHOWN = 100;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];
const rank = (level) => (level === "CRITICAL" ? LEVELS.length : LEVELS.indexOf(level));

function Line({ line }) {
  const [first, ...more] = line.message.split("\n");
  return html`<li><span class="doc">${clock(line.at)}</span> <b class=${rank(line.level) >= 2 ? "error" : ""}>${line.level}</b>${" "}
    <span class="doc">${line.task === null ? "" : `task ${line.task} `}on ${line.worker}</span>
    <div class="message">${first}</div>
    ${more.length ? html`<details class="headers"><summary>more</summary><pre tabindex="0">${more.join("\n")}</pre></details>` : null}</li>`;
}

export function Logs({ name }) {
  const [lines, setLines] = useState(null);
  const [problem, setProblem] = useState("");
  const [level, setLevel] = useState("INFO");
  const [filter, setFilter] = useState("");
  useEffect(() => repeat(() => api.logs(name).then(({ logs }) => { setLines(logs); setProblem(""); },
    (error) => setProblem(error.message)), REFRESH_MS), [name]);
  const text = filter.toLowerCase();
  const wanted = (lines ?? []).filter((line) => rank(line.level) >= rank(level) && (!text || line.message.toLowerCase().includes(text)));
  const shown = wanted.slice(-SHOWN).reverse();
  return html`<section><h2>Log</h2><${Problem} text=${problem} />
    <p class="line"><label class="short">From level <select value=${level} onChange=${(event) => setLevel(event.target.value)}>
      ${LEVELS.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label>Filter <input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label></p>
    ${shown.length ? html`<ul class="plain logs">${shown.map((line) =>
        html`<${Line} key=${`${line.at} ${line.worker} ${line.task} ${line.message}`} line=${line} />`)}</ul>`
      : html`<p>${lines === null ? "Asking the workers ..." : lines.length ? "No line matches." : "The workers have logged nothing about it."}</p>`}</section>`;
}
