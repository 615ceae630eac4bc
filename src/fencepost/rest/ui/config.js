// A connector's configuration, with documentation, checked by the worker as one types.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api } from "./api.js";
import { Problem, html } from "./format.js";

const PAUSE_MS = 400;

function Property({ name, value, info, onInput, onRemove }) {
  const { definition, value: checked } = info ?? {};
  const errors = checked?.errors ?? [];
  const known = checked?.recommended_values ?? [];
  const id = `config-${name}`;
  return html`<div class="property">
    <label for=${id}><code>${name}</code>${definition?.required ? " (required)" : ""}</label>
    <input id=${id} value=${value} list=${known.length ? `${id}-values` : null} aria-invalid=${errors.length > 0}
      onInput=${(event) => onInput(event.target.value)} />
    ${known.length ? html`<datalist id="${id}-values">${known.map((each) => html`<option value=${each} />`)}</datalist>` : null}
    <button class="small" onClick=${onRemove} aria-label=${`Remove ${name}`}>remove</button>
    ${errors.map((error) => html`<p class="error" role="alert">${error}</p>`)}
    <p class="doc">${definition ? definition.documentation : info ? "The connector does not define this property." : ""}
      ${definition?.default_value ? html` Default: <code>${definition.default_value}</code>.` : null}</p>
  </div>`;
}

export function Configuration({ name, config }) {
  const [draft, setDraft] = useState(config);
  const [checks, setChecks] = useState({ of: null, found: null });
  const [told, setTold] = useState("");
  const [added, setAdded] = useState("");
  const key = JSON.stringify(draft);
  const changed = key !== JSON.stringify(config);
  // What is known of a former draft says nothing about this one.
  const checked = checks.of === key;
  const errors = checks.found?.error_count ?? 0;
  // What was saved, here or elsewhere, is what is edited from then on.
  useEffect(() => { setDraft(config); }, [JSON.stringify(config)]);
  useEffect(() => {
    let current = true;
    setTold("");
    const timer = setTimeout(() => {
      api.validate(draft["connector.class"] ?? "", draft).then(
        (found) => { if (current) { setChecks({ of: key, found }); setTold(""); } },
        (error) => { if (current) setTold(error.message); });
    }, checks.found === null ? 0 : PAUSE_MS);
    return () => { current = false; clearTimeout(timer); };
  }, [key]);
  const infos = new Map((checks.found?.configs ?? []).map((info) => [info.value.name, info]));
  const unset = [...infos.values()].filter((info) => info.definition && !(info.value.name in draft));
  const missing = unset.filter((info) => info.value.errors.length);
  const set = (key, value) => setDraft({ ...draft, [key]: value });
  const remove = (key) => setDraft(Object.fromEntries(Object.entries(draft).filter(([other]) => other !== key)));
  const outcome = !checked ? (told ? "Not checked." : "Checking ...")
    : errors ? `${errors === 1 ? "1 property has an error" : `${errors} properties have errors`}.`
    : changed ? "Valid, not saved." : "";
  const save = () => api.configure(name, draft).then(() => setTold("Saved."), (error) => setTold(error.message));
  const add = (event) => { event.preventDefault(); if (added) { set(added, ""); setAdded(""); } };
  return html`<section><h2>Configuration</h2>
    ${Object.keys(draft).sort().map((key) => html`<${Property} key=${key} name=${key} value=${draft[key]}
      info=${infos.get(key)} onInput=${(value) => set(key, value)} onRemove=${() => remove(key)} />`)}
    ${missing.map((info) => html`<p class="error" role="alert"><code>${info.value.name}</code>: ${info.value.errors[0]}</p>`)}
    <form class="line" onSubmit=${add}><label>Add a property
      <input list="unset" value=${added} onInput=${(event) => setAdded(event.target.value)} /></label>
      <datalist id="unset">${unset.map((info) => html`<option value=${info.value.name}>${info.definition.documentation}</option>`)}</datalist>
      <button>Add</button></form>
    <p class="line"><button disabled=${!changed || !checked || errors > 0} onClick=${save}>Save</button>
      <button disabled=${!changed} onClick=${() => setDraft(config)}>Discard changes</button>
      <span role="status">${outcome}</span></p>
    <${Problem} text=${told} /></section>`;
}
