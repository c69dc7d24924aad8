// Elements, formatted numbers, announcements for screen readers, and browser storage. Text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element with attributes and children. Functions become event listeners. False and null are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element in the same way. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

let hints = 0;

/** A label above its control, and optionally a hint below. */
export function field(label, control, hint) {
  const labelled = el("label", { class: "field" }, el("span", {}, label), control);
  if (!hint) return labelled;
  const id = `hint-${(hints += 1)}`;
  control.setAttribute("aria-describedby", id);
  return el("div", {}, labelled, el("small", { id }, hint));
}

/** The list lengths that a person can choose from, as pairs for select(). They include the chosen length. */
export function listLengths(service, chosen) {
  const longest = Math.min(12, service.limits.K, service.items);
  const lengths = Array.from({ length: longest }, (_, index) => index + 1);
  return (lengths.includes(chosen) ? lengths : [...lengths, chosen]).map((length) => [length, length]);
}

/** A select element with an option for each [value, text] pair. */
export function select(pairs, chosen, change, attributes = {}) {
  const element = el("select", { ...attributes, change: () => change(element.value) });
  for (const [value, text] of pairs) element.append(el("option", { value, selected: String(value) === String(chosen) }, text));
  return element;
}

/** Announce a text to screen readers. A space is added if it is the same as before, so that it is announced again. */
export function announce(text) {
  const region = document.getElementById("said");
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

/** An error message of the service as a sentence: with a capital letter and a period. */
export const sentence = (message) => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
export const number = (value, digits = 2) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "\u2212");
export const count = (value) => Math.round(value).toLocaleString("en");
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u2009%`;
export const lists = (value) => `${count(value)} ${value === 1 ? "list" : "lists"}`;
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

/** Join words as in "a, b and c". */
export function joined(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** Store a value in the browser, or remove it if it is null. Does nothing if storage is disabled or full. */
export function storeValue(store, name, value) {
  try {
    if (value === null) store().removeItem(name);
    else store().setItem(name, JSON.stringify(value));
  } catch {
    // The page works without storage.
  }
}

/** Return a value that was stored in the browser, or null. */
export function loadValue(store, name) {
  try {
    return JSON.parse(store().getItem(name));
  } catch {
    return null;
  }
}

export const localStore = () => window.localStorage;
export const sessionStore = () => window.sessionStorage;
