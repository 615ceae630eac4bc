// The properties of a connector, existing or new, with their documentation. The worker validates them while the user types.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api } from "./api.js";
import { Problem, html } from "./format.js";
import { live } from "./live.js";

const PAUSE_MS = 400;

// The worker uses the same names to recognise passwords among properties without a definition.
const SECRET = /(password|sasl\.jaas\.config|ssl\.keystore\.key|secret)$/i;

const BOOLEANS = ["true", "false"];

// Without `onRemove`, an empty field means that the property is not set. The worker shows saved passwords only as
// placeholders of config providers, or as stars.
export function Property({ name, value, info, errors, onInput, onRemove }) {
  const { definition, value: checked } = info ?? {};
  const recommended = checked?.recommended_values ?? [];
  const known = recommended.length || definition?.type !== "BOOLEAN" ? recommended : BOOLEANS;
  const id = `config-${name}`;
  const secret = definition ? definition.type === "PASSWORD" : SECRET.test(name);
  return html`<div class="property">
    <label for=${id}><code>${name}</code>${definition?.required ? " (required)" : ""}</label>
    <input id=${id} value=${value} type=${secret ? "password" : "text"} autocomplete=${secret ? "new-password" : "off"} spellcheck=${false}
      list=${known.length ? `${id}-values` : null} aria-invalid=${errors.length > 0} aria-describedby="${id}-told"
      onInput=${(event) => onInput(event.target.value)} />
    ${known.length ? html`<datalist id="${id}-values">${known.map((each) => html`<option value=${each} />`)}</datalist>` : null}
    ${onRemove ? html`<button type="button" class="small" onClick=${onRemove} aria-label=${`Remove ${name}`}>remove</button>` : null}
    <div id="${id}-told">${errors.map((error) => html`<p class="error" role="alert">${error}</p>`)}
      <p class="doc">${definition ? definition.documentation : info ? "The connector does not define this property." : ""}
        ${definition?.default_value ? html` Default: <code>${definition.default_value}</code>.` : null}</p></div>
  </div>`;
}

// Lets the worker validate a draft. `infos` has the newest answer's properties by name; the answer is for this draft only if
// `checked`. If the worker was unreachable, the draft is validated when it answers again.
export function useChecks(draft) {
  const [checks, setChecks] = useState({ of: null, found: null });
  const [told, setTold] = useState("");
  const key = JSON.stringify(draft);
  useEffect(() => {
    let current = true;
    setTold("");
    if (!draft["connector.class"]) return () => {};
    const timer = setTimeout(() => {
      api.validate(draft["connector.class"], draft).then(
        (found) => { if (current) { setChecks({ of: key, found }); setTold(""); } },
        (error) => { if (current) setTold(error.message); });
    }, checks.found === null ? 0 : PAUSE_MS);
    return () => { current = false; clearTimeout(timer); };
  }, [key, live.connected]);
  const infos = new Map((checks.found?.configs ?? []).map((info) => [info.value.name, info]));
  const faulty = [...infos.values()].filter((info) => info.value.errors.length).map((info) => info.value.name);
  return { infos, groups: checks.found?.groups ?? [], checked: checks.of === key, faulty, told, setTold };
}

// Opens the group of a property, and moves the focus to the property's field. Returns whether the property has a field.
export function lead(name) {
  const field = document.getElementById(`config-${name}`);
  const group = field?.closest("details");
  if (group) group.open = true;
  field?.focus();
  return field !== null;
}

const Names = ({ names, go }) => names.map((name, at) => html`${at ? ", " : ""}<button type="button" class="link"
  onClick=${() => go(name)}>${name}</button>`);

// Lists the properties that must be corrected before a draft can be saved: the `missing` ones, which are not filled in, and
// the invalid ones. Each name is a link to its field.
export function Outcome({ checks, missing, go, otherwise }) {
  const wrong = checks.faulty.filter((name) => !missing.includes(name));
  if (!checks.checked) return checks.told ? "Not checked." : "Checking ...";
  if (!checks.faulty.length) return otherwise;
  return html`${wrong.length ? html`${wrong.length === 1 ? "1 property has an error" : `${wrong.length} properties have errors`}: <${Names}
    names=${wrong} go=${go} />. ` : null}${missing.length ? html`Still missing: <${Names} names=${missing} go=${go} />.` : null}`;
}

export function Configuration({ name, config }) {
  const [draft, setDraft] = useState(config);
  const [added, setAdded] = useState("");
  const checks = useChecks(draft);
  const { infos, checked, faulty, told, setTold } = checks;
  const changed = JSON.stringify(draft) !== JSON.stringify(config);
  // When a configuration is saved, here or elsewhere, the draft becomes the saved configuration.
  useEffect(() => { setDraft(config); }, [JSON.stringify(config)]);
  const unset = [...infos.values()].filter((info) => info.definition && !(info.value.name in draft));
  const missing = faulty.filter((key) => !(key in draft));
  const set = (key, value) => setDraft({ ...draft, [key]: value });
  const remove = (key) => setDraft(Object.fromEntries(Object.entries(draft).filter(([other]) => other !== key)));
  const save = () => api.configure(name, draft).then(() => setTold("Saved."), (error) => setTold(error.message));
  const go = (key) => lead(key) || set(key, "");
  const add = (event) => { event.preventDefault(); if (added) { set(added, ""); setAdded(""); } };
  return html`<section><h2>Configuration</h2>
    ${Object.keys(draft).sort().map((key) => html`<${Property} key=${key} name=${key} value=${draft[key]}
      info=${infos.get(key)} errors=${infos.get(key)?.value.errors ?? []}
      onInput=${(value) => set(key, value)} onRemove=${() => remove(key)} />`)}
    ${missing.map((key) => html`<p class="error" role="alert"><code>${key}</code>: ${infos.get(key).value.errors[0]}</p>`)}
    <form class="line" onSubmit=${add}><label>Add a property
      <input list="unset" value=${added} onInput=${(event) => setAdded(event.target.value)} /></label>
      <datalist id="unset">${unset.map((info) => html`<option value=${info.value.name}>${info.definition.documentation}</option>`)}</datalist>
      <button>Add</button></form>
    <p class="line"><button disabled=${!changed || !checked || faulty.length > 0} onClick=${save}>Save</button>
      <button disabled=${!changed} onClick=${() => setDraft(config)}>Discard changes</button>
      <span role="status">${draft["connector.class"]
        ? html`<${Outcome} checks=${checks} missing=${missing} go=${go} otherwise=${changed ? "Valid, not saved." : ""} />`
        : html`Still missing: <${Names} names=${["connector.class"]} go=${go} />.`}</span></p>
    <${Problem} text=${told} /></section>`;
}
