// Numbers, times and states as people read them.

import { h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

// Invisible characters, and characters that change the direction of a text, could make a name look like another name. They
// are escaped as in logs and JSON, except for the two joiners, which are parts of letters.
const UNSEEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
export const printable = (text) => text.replace(UNSEEN, (each) => each.split("").map(escaped).join(""));

const child = (each) => (typeof each === "string" ? printable(each) : each);
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(child)));

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

export const count = (value) => (value === null || value === undefined ? "" : whole.format(value));

export const many = (number, thing) => `${whole.format(number)} ${thing}${number === 1 ? "" : "s"}`;

// The head of a table. Its columns from number `firstNumber` on contain figures.
export const Head = ({ titles, firstNumber }) => html`<thead><tr>${titles.map((title, at) =>
  html`<th scope="col" class=${at >= firstNumber ? "number" : ""}>${title}</th>`)}</tr></thead>`;

export function size(value) {
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  return `${unit ? value.toPrecision(3) : value} ${UNITS[unit]}`;
}

export function span(seconds) {
  if (seconds < 100) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// Ages are computed with the worker's clock, because the browser's clock may differ.
let ahead = 0;
export const setClock = (ms) => { ahead = ms - Date.now(); };
export const now = () => Date.now() + ahead;

export const ago = (ms) => (ms === null || ms === undefined ? "" : span((now() - ms) / 1000));
export const clock = (ms) => new Date(ms).toLocaleString("en-GB");

const ORDER = ["FAILED", "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING"];

export const worst = (row) =>
  [row.state, ...row.tasks.map((task) => task.state)]
    .sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b))[0];
export const rank = (row) => ORDER.indexOf(worst(row));

export const State = ({ state }) => html`<span class="state ${state.toLowerCase()}">${state}</span>`;

export const Problem = ({ text }) => (text ? html`<p class="problem" role="alert">${text}</p>` : null);
