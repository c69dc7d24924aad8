// A list and why each item is in it: what it adds, how much is belief and how much is curiosity.

import { indexBar } from "./charts.js";
import { el, listed, number } from "./dom.js";

/** Δ(e|S) add up to the coverage: of each topic, the share that the first items have. */
export function covered(items, before = items.length) {
  const shares = Object.create(null); // a topic may be called as something that objects have
  for (const { gains } of items.slice(0, before)) {
    for (const [topic, gain] of Object.entries(gains)) shares[topic] = Math.min(1, (shares[topic] ?? 0) + gain);
  }
  return shares;
}

/** How much of an item's index is curiosity, in words. */
export function motive(belief, exploration) {
  const all = Math.abs(belief) + exploration;
  const share = all > 0 ? exploration / all : 0;
  if (share > 0.8) return "curiosity";
  if (share > 0.5) return "mostly curiosity";
  return share > 0.2 ? "mostly belief" : "belief";
}

/** The topics of an item; those that the items above have already, fade. */
function chips(item, above, diverse) {
  return Object.entries(item.gains)
    .sort(([, a], [, b]) => b - a)
    .map(([topic, gain]) => {
      const had = diverse ? (above[topic] ?? 0) : 0;
      const faded = had > 2 / 3 ? "covered" : had > 1 / 3 ? "partly" : "fresh";
      return el("span", { class: `chip ${faded}`, "data-had": had.toFixed(3) }, `${topic} `, el("b", {}, `+${number(gain)}`));
    });
}

/** What is said of an item to who cannot see chips and bars. */
function reason(item, above, diverse) {
  const adds = Object.entries(item.gains).filter(([, gain]) => gain >= 0.005).map(([topic]) => topic);
  const had = diverse ? Object.keys(item.gains).filter((topic) => above[topic] > 1 / 3) : [];
  const parts = [adds.length ? `Adds ${listed(adds)}.` : "Adds no topic."];
  if (had.length) parts.push(`Partly covered above: ${listed(had)}.`);
  return `${parts.join(" ")} Belief ${number(item.belief)}, curiosity ${number(item.exploration)}.`;
}

/** One item of a list: its inside, for a button or a list entry. id makes the names by which parts refer to one another. */
export function card(items, at, { id, diverse }) {
  const item = items[at];
  const above = covered(items, at);
  const largest = Math.max(...items.map((one) => Math.max(0, one.belief) + one.exploration));
  return [
    el("span", { class: "place", id: `${id}-place`, "aria-hidden": "false" }, String(at + 1)),
    el("span", { class: "name", id: `${id}-name`, dir: "auto" }, String(item.item)),
    el("span", { class: "chips", "aria-hidden": "true" }, chips(item, above, diverse)),
    el("span", { class: "why", "aria-hidden": "true" }, indexBar(item.belief, item.exploration, largest), motive(item.belief, item.exploration)),
    el("span", { class: "unseen", id: `${id}-why` }, reason(item, above, diverse)),
  ];
}
