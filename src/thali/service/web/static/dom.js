// Elements, numbers as text, and what a screen reader is told. Text is always text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (functions become listeners, `class` a class, false and null nothing) and children. */
export function el(tag, given = {}, ...children) {
  return fill(document.createElement(tag), given, children);
}

/** The same for SVG. */
export function svg(tag, given = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), given, children);
}

function fill(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

let hints = 0;

/** A label above its control, and perhaps a hint below. */
export function field(label, control, hint) {
  const labelled = el("label", { class: "field" }, el("span", {}, label), control);
  if (!hint) return labelled;
  const id = `hint-${(hints += 1)}`;
  control.setAttribute("aria-describedby", id);
  return el("div", {}, labelled, el("small", { id }, hint));
}

/** Lengths of a list to choose from, with the one that is chosen. */
export function sizes(service, chosen) {
  const most = Math.min(12, service.limits.K, service.items);
  const found = Array.from({ length: most }, (_, at) => at + 1);
  return (found.includes(chosen) ? found : [...found, chosen]).map((size) => [size, size]);
}

/** A select of [value, text] pairs. */
export function select(pairs, chosen, change, more = {}) {
  const made = el("select", { ...more, change: () => change(made.value) });
  for (const [value, text] of pairs) made.append(el("option", { value, selected: String(value) === String(chosen) }, text));
  return made;
}

/** Tell it to who does not see the page; the same words again are told again. */
export function say(words) {
  const place = document.getElementById("said");
  place.textContent = place.textContent === words ? `${words}\u00a0` : words;
}

export const number = (value, digits = 2) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "\u2212");
export const count = (value) => Math.round(value).toLocaleString("en");
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u2009%`;
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

/** "a, b and c" */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** What is kept in the browser; where nothing may be kept, nothing is. */
export function keep(store, name, value) {
  try {
    if (value === null) store().removeItem(name);
    else store().setItem(name, JSON.stringify(value));
  } catch {
    // Storage is switched off or full: the page works without.
  }
}

export function kept(store, name) {
  try {
    return JSON.parse(store().getItem(name));
  } catch {
    return null;
  }
}

export const lasting = () => window.localStorage;
export const passing = () => window.sessionStorage;
