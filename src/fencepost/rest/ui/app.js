// The page of a worker. The part of the URL after # selects the view: the group, a connector, a topic, or the form for a new
// connector.

import { render } from "./vendor/preact.mjs";
import { useEffect, useReducer } from "./vendor/hooks.mjs";
import { Connector } from "./connector.js";
import { Create } from "./create.js";
import { Problem, clock, html, printable } from "./format.js";
import { follow, live, subscribe } from "./live.js";
import { Overview } from "./overview.js";
import { Topic } from "./topic.js";

function place() {
  const [, kind, name] = location.hash.split("/");
  try {
    return { kind, name: decodeURIComponent(name ?? "") };
  } catch {
    return { kind: "", name: "" };
  }
}

function View() {
  const { kind, name } = place();
  if (kind === "connectors" && name) return html`<${Connector} key=${name} name=${name} live=${live} />`;
  if (kind === "create") return html`<${Create} />`;
  if (kind === "topics" && name) return html`<${Topic} key=${name} name=${name} />`;
  return live.group === null ? html`<p>Asking the worker ...</p>` : html`<${Overview} live=${live} />`;
}

function Group({ group }) {
  const { exactly_once: support, breaking } = group;
  return html`<span class="group">group <b>${group.group_id}</b>, exactly-once ${support}</span>
    ${breaking.length ? html`<${Problem} text=${`These workers break exactly-once delivery: ${breaking.join(", ")}`} />` : null}`;
}

function Connection() {
  const { connected, heard } = live;
  const text = connected ? "live" : heard === null ? "not connected" : `not connected since ${clock(heard)}`;
  return html`<span role="status" class=${connected ? "" : "error"}>${text}</span>`;
}

// In a field, Escape leaves the field and keeps its text. Elsewhere it returns to the overview, except from the form for a
// new connector, which may be half filled in.
function onEscape(event) {
  if (event.key !== "Escape" || location.hash.length <= 2) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) event.target.blur();
  else if (place().kind === "create") return;
  else location.hash = "#/";
}

// Shows a new view from its top, and moves the focus there, for keyboards and screen readers.
function enter() {
  document.getElementById("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

// Moves the focus to the content, without changing the part of the URL after #, which selects the view.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Page() {
  const [, again] = useReducer((number) => number + 1, 0);
  useEffect(() => {
    const onPlace = () => { again(); enter(); };
    addEventListener("hashchange", onPlace);
    const forget = subscribe(again);
    addEventListener("keydown", onEscape);
    return () => { removeEventListener("hashchange", onPlace); removeEventListener("keydown", onEscape); forget(); };
  }, []);
  const { kind, name } = place();
  useEffect(() => { document.title = [...(kind ? [printable(name) || "Create a connector"] : []), "fencepost"].join(" - "); }, [kind, name]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header><a class="home" href="#/">fencepost</a>${live.group ? html`<${Group} group=${live.group} />` : null}
      <${Connection} /></header>
    <main id="main" tabindex="-1">${kind ? html`<nav><a href="#/">All connectors</a></nav>` : null}<${Problem} text=${live.problem} /><${View} /></main>`;
}

follow();
render(html`<${Page} />`, document.getElementById("app"));
