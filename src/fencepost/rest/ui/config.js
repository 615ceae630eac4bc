// Properties of a connector with documentation, checked by the worker as one types: of one that runs, or of a new one.

import { useEffect, useState } from "./vendor/hooks.mjs";
import { api } from "./api.js";
import { Problem, html } from "./format.js";

const PAUSE_MS = 400;

// As the worker tells passwords without a definition, by their names.
const SECRET = /(password|sasl\.jaas\.config|ssl\.keystore\.key|secret)$/i;

const BOOLEANS = ["true", "false"];

// Without `onRemove` an empty field is a property that is not set. Secrets that are saved come as references or stars.
export function Property({ name, value, info, errors, onInput, onRemove }) {
  const { definition, value: checked } = info ?? {};
  const recommended = checked?.recommended_values ?? [];
  const known = recommended.length || definition?.type !== "BOOLEAN" ? recommended : BOOLEANS;
  const id = `config-${name}`;
  const secret = definition ? definition.type === "PASSWORD" : SECRET.test(name);
  return html`<div class="property">
    <label for=${id}><code>${name}</code>${definition?.required ? " (required)" : ""}</label>
    <input id=${id} value=${value} type=${secret ? "password" : "text"} autocomplete=${secret ? "new-password" : "off"} spellcheck=${false}
      list=${known.length ? `${id}-values` : null} aria-invalid=${errors.length > 0}
      onInput=${(event) => onInput(event.target.value)} />
    ${known.length ? html`<datalist id="${id}-values">${known.map((each) => html`<option value=${each} />`)}</datalist>` : null}
    ${onRemove ? html`<button type="button" class="small" onClick=${onRemove} aria-label=${`Remove ${name}`}>remove</button>` : html`<span />`}
    ${errors.map((error) => html`<p class="error" role="alert">${error}</p>`)}
    <p class="doc">${definition ? definition.documentation : info ? "The connector does not define this property." : ""}
      ${definition?.default_value ? html` Default: <code>${definition.default_value}</code>.` : null}</p>
  </div>`;
}

// What the worker says of a draft: `infos` by name of the newest answer, which is about this draft only if `checked`.
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
  }, [key]);
  const infos = new Map((checks.found?.configs ?? []).map((info) => [info.value.name, info]));
  const checked = checks.of === key;
  return { infos, groups: checks.found?.groups ?? [], checked, errors: checks.found?.error_count ?? 0, told, setTold };
}

export function outcome({ checked, told, errors }, otherwise) {
  if (!checked) return told ? "Not checked." : "Checking ...";
  return errors ? `${errors === 1 ? "1 property has an error" : `${errors} properties have errors`}.` : otherwise;
}

export function Configuration({ name, config }) {
  const [draft, setDraft] = useState(config);
  const [added, setAdded] = useState("");
  const checks = useChecks(draft);
  const { infos, checked, errors, told, setTold } = checks;
  const changed = JSON.stringify(draft) !== JSON.stringify(config);
  // What was saved, here or elsewhere, is what is edited from then on.
  useEffect(() => { setDraft(config); }, [JSON.stringify(config)]);
  const unset = [...infos.values()].filter((info) => info.definition && !(info.value.name in draft));
  const missing = unset.filter((info) => info.value.errors.length);
  const set = (key, value) => setDraft({ ...draft, [key]: value });
  const remove = (key) => setDraft(Object.fromEntries(Object.entries(draft).filter(([other]) => other !== key)));
  const save = () => api.configure(name, draft).then(() => setTold("Saved."), (error) => setTold(error.message));
  const add = (event) => { event.preventDefault(); if (added) { set(added, ""); setAdded(""); } };
  return html`<section><h2>Configuration</h2>
    ${Object.keys(draft).sort().map((key) => html`<${Property} key=${key} name=${key} value=${draft[key]}
      info=${infos.get(key)} errors=${infos.get(key)?.value.errors ?? []}
      onInput=${(value) => set(key, value)} onRemove=${() => remove(key)} />`)}
    ${missing.map((info) => html`<p class="error" role="alert"><code>${info.value.name}</code>: ${info.value.errors[0]}</p>`)}
    <form class="line" onSubmit=${add}><label>Add a property
      <input list="unset" value=${added} onInput=${(event) => setAdded(event.target.value)} /></label>
      <datalist id="unset">${unset.map((info) => html`<option value=${info.value.name}>${info.definition.documentation}</option>`)}</datalist>
      <button>Add</button></form>
    <p class="line"><button disabled=${!changed || !checked || errors > 0} onClick=${save}>Save</button>
      <button disabled=${!changed} onClick=${() => setDraft(config)}>Discard changes</button>
      <span role="status">${outcome(checks, changed ? "Valid, not saved." : "")}</span></p>
    <${Problem} text=${told} /></section>`;
}
