// A form that creates a connector: its class, its name, and the properties that the class defines, by group.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api } from "./api.js";
import { Outcome, Property, lead, useChecks } from "./config.js";
import { Problem, html } from "./format.js";
import { live } from "./live.js";

const FIRST = ["connector.class", "name"];
const VERSION = "connector.plugin.version";

function isFirst({ definition }) {
  return definition.required || definition.importance === "HIGH";
}

// The errors of a field are shown only after the user has changed the field. Otherwise a new form would be full of errors.
function Group({ title, infos, draft, touched, set }) {
  const open = infos.some(({ definition }) => definition.required);
  const given = infos.filter((info) => info.value.name in draft).length;
  const wrong = infos.filter((info) => touched.has(info.value.name) && info.value.errors.length).length;
  return html`<details open=${open}><summary>${title}${given ? ` (${given} set)` : ""}
    ${wrong ? html` <span class="error">${wrong === 1 ? "1 error" : `${wrong} errors`}</span>` : null}</summary>
    ${infos.map((info) => {
      const { name, errors } = info.value;
      return html`<${Property} key=${name} name=${name} value=${draft[name] ?? ""} info=${info}
        errors=${touched.has(name) ? errors : []} onInput=${(value) => set(name, value)} />`;
    })}</details>`;
}

// The properties that are set but not defined, for example because they belong to the class that was chosen before. They are
// shown, because they will be sent.
function Others({ infos, draft, set }) {
  const [added, setAdded] = useState("");
  const names = Object.keys(draft).filter((name) => !FIRST.includes(name) && !infos.get(name)?.definition).sort();
  // If the property already has a field, the focus moves to that field.
  const add = () => {
    const name = added.trim();
    if (name && !lead(name)) set(name, "", true);
    setAdded("");
  };
  return html`<details open=${names.length > 0}><summary>Other properties${names.length ? ` (${names.length} set)` : ""}</summary>
    ${names.map((name) => html`<${Property} key=${name} name=${name} value=${draft[name]} info=${infos.get(name)}
      errors=${infos.get(name)?.value.errors ?? []} onInput=${(value) => set(name, value, true)} onRemove=${() => set(name, "")} />`)}
    <p class="line"><label>Name <input id="added" value=${added} autocomplete="off" spellcheck=${false} onInput=${(event) => setAdded(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Enter") { event.preventDefault(); add(); } }} /></label>
      <button type="button" disabled=${!added.trim()} onClick=${add}>Add a property</button></p></details>`;
}

// Returns pairs of a group's title and its properties. The first group has the connector's properties without a group.
function byGroup({ infos, groups }) {
  const defined = [...infos.values()].filter((info) => info.definition && !FIRST.includes(info.value.name));
  const members = (wanted) => defined.filter((info) => wanted(info.definition.group))
    .sort((a, b) => isFirst(b) - isFirst(a) || a.definition.order - b.definition.order);
  return [["Of this connector", members((group) => !groups.includes(group))],
    ...groups.map((title) => [title, members((group) => group === title)])].filter(([, found]) => found.length);
}

// Pairs of an option's value and its plugin. If plugin.path has a class in several versions, each has an option.
function options(plugins) {
  const several = ({ class: name }) => plugins.filter((each) => each.class === name).length > 1;
  return plugins.map((each) => [several(each) ? `${each.class} ${each.version}` : each.class, each]);
}

export function Create() {
  const [plugins, setPlugins] = useState([]);
  const [draft, setDraft] = useState({});
  const [touched, setTouched] = useState(new Set());
  const [creating, setCreating] = useState(false);
  const checks = useChecks(draft);
  const { infos, checked, faulty, told, setTold } = checks;
  useEffect(() => {
    api.plugins().then((found) => { setPlugins(found); setTold(""); }, (error) => setTold(error.message));
  }, [live.connected]);
  // An empty field means that the property is not set, unless the user added the property by its name.
  const set = (key, value, added = false) => {
    const { [key]: _, ...others } = draft;
    setDraft(value === "" && !added ? others : { ...others, [key]: value });
    setTouched(new Set(touched).add(key));
  };
  const plugin = draft["connector.class"];
  const choices = options(plugins).filter(([, each]) => each.class === plugin);
  const chosen = choices.find(([, { version }]) => version === draft[VERSION]) ?? choices[0];
  const choose = (value) => {
    const { "connector.class": _, [VERSION]: __, ...others } = draft;
    const [, found] = options(plugins).find(([option]) => option === value) ?? [];
    const version = found && value !== found.class ? { [VERSION]: found.version } : {};
    setDraft(found ? { ...others, "connector.class": found.class, ...version } : others);
    setTouched(new Set(touched).add("connector.class"));
  };
  const missing = faulty.filter((name) => !touched.has(name));
  const create = (event) => {
    event.preventDefault();
    setCreating(true);
    setTold("");
    api.create(draft.name, draft).then(
      // The name in the answer, because the worker removes blanks around a name.
      ({ name }) => { location.hash = `#/connectors/${encodeURIComponent(name)}`; },
      (error) => { setTold(error.message); setCreating(false); });
  };
  return html`<h1>Create a connector</h1><form onSubmit=${create} autocomplete="off">
    <p class="line"><label>Connector <select id="plugin" value=${chosen?.[0] ?? ""} onChange=${(event) => choose(event.target.value)}>
      <option value="">Choose one</option>
      ${options(plugins).map(([option, each]) => html`<option value=${option}>${each.class}${each.version ? ` ${each.version}` : ""}</option>`)}
    </select></label></p>
    ${plugin && infos.size ? html`
      <${Property} name="name" value=${draft.name ?? ""} info=${infos.get("name")}
        errors=${touched.has("name") ? infos.get("name")?.value.errors ?? [] : []} onInput=${(value) => set("name", value)} />
      ${byGroup(checks).map(([title, members]) => html`<${Group} key=${title} title=${title} infos=${members}
        draft=${draft} touched=${touched} set=${set} />`)}
      <${Others} infos=${infos} draft=${draft} set=${set} />` : null}
    ${plugin ? html`<p class="line"><button disabled=${creating || !checked || faulty.length > 0 || !draft.name}>${creating ? "Creating ..." : "Create"}</button>
      <span role="status"><${Outcome} checks=${checks} missing=${missing} go=${lead} otherwise="Valid." /></span></p>` : null}
    <${Problem} text=${told} /></form>`;
}
