// A list and why each item is in it: what it adds, how much is belief and how much is exploration.

import { indexBar } from "./charts.js";
import { el, listed, number } from "./dom.js";

/**
 * Of each topic, the share that the first items of a list have. Δ(e|S), what each adds to those above, sums up to it;
 * where a learner looks at items alone (not diverse), Δ(e|∅) is put together as the coverage does; of a coverage that is
 * not known here the best item counts, which is no more than the truth.
 */
export function covered(items, { diverse, coverage }, before = items.length) {
  const shares = Object.create(null); // a topic may be called anything, "constructor" too
  for (const { gains } of items.slice(0, before)) {
    for (const [topic, gain] of Object.entries(gains)) {
      const had = shares[topic] ?? 0;
      if (diverse) shares[topic] = Math.min(1, had + gain);
      else shares[topic] = coverage === "probabilistic" ? 1 - (1 - had) * (1 - gain) : Math.max(had, gain);
    }
  }
  return shares;
}

/** How much of an item's index is exploration, in words. */
function motive(belief, exploration) {
  const all = Math.abs(belief) + exploration;
  if (all === 0) return "nothing known";
  const share = exploration / all;
  if (share > 0.8) return "exploration";
  if (share > 0.5) return "mostly exploration";
  return share > 0.2 ? "mostly belief" : "belief";
}

/** The topics of an item; those that the items above have already, fade. */
function chips(item, above, { diverse }) {
  return Object.entries(item.gains)
    .sort(([, a], [, b]) => b - a)
    .map(([topic, gain]) => {
      const had = above[topic] ?? 0;
      const faded = had > 2 / 3 ? "covered" : had > 1 / 3 ? "partly" : "fresh";
      return el("span", { class: `chip ${faded}` }, el("bdi", {}, topic), " ", el("b", {}, `${diverse ? "+" : ""}${number(gain)}`));
    });
}

/** What is said of an item to who cannot see chips and bars. */
function reason(item, above, { diverse }) {
  const has = Object.entries(item.gains).filter(([, gain]) => gain >= 0.005).map(([topic]) => topic);
  const had = Object.keys(item.gains).filter((topic) => above[topic] > 1 / 3);
  const parts = [has.length ? `${diverse ? "Adds" : "Has"} ${listed(has)}.` : "Adds no topic."];
  if (had.length) parts.push(`Partly covered above: ${listed(had)}.`);
  return `${parts.join(" ")} Belief ${number(item.belief)}, exploration ${number(item.exploration)}.`;
}

/**
 * One item of a list: its inside, for a button or a list entry. id makes the names by which parts refer to one another;
 * kind: {diverse, coverage}.
 */
export function card(items, at, id, kind) {
  const item = items[at];
  const above = covered(items, kind, at);
  const largest = Math.max(...items.map((one) => Math.max(0, one.belief) + one.exploration));
  return [
    el("span", { class: "place", id: `${id}-place` }, String(at + 1)),
    el("span", { class: "name", id: `${id}-name`, dir: "auto" }, String(item.item)),
    el("span", { class: "chips", "aria-hidden": "true" }, chips(item, above, kind)),
    el("span", { class: "why", "aria-hidden": "true" }, indexBar(item.belief, item.exploration, largest), motive(item.belief, item.exploration)),
    el("span", { class: "unseen", id: `${id}-why` }, reason(item, above, kind)),
  ];
}
