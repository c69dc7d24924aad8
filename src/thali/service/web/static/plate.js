// An item of a list, and why it is there: what it adds to each topic, and its belief and exploration.

import { indexBar } from "./charts.js";
import { el, joined, number } from "./dom.js";

/**
 * How much of each topic the first items of a list cover, from 0 to 1.
 *
 * For a diverse learner, this is the sum of the gains Δ(e|S). Other learners look at each item alone, so their gains are
 * Δ(e|∅), which have to be combined as the coverage does. If the coverage is unknown here, only the best item counts,
 * which never overstates the share.
 */
export function covered(items, { diverse, coverage, steady = [] }, before = items.length) {
  const shares = Object.create(null); // a topic may have any name, even "constructor"
  for (const { gains } of items.slice(0, before)) {
    for (const [topic, gain] of Object.entries(gains)) {
      if (steady.includes(topic)) continue;
      const share = shares[topic] ?? 0;
      if (diverse) shares[topic] = Math.min(1, share + gain);
      else shares[topic] = coverage === "probabilistic" ? 1 - (1 - share) * (1 - gain) : Math.max(share, gain);
    }
  }
  return shares;
}

/** The share of exploration in an item's index, in words. */
function motive(belief, exploration) {
  const total = Math.abs(belief) + exploration;
  if (total === 0) return "nothing known yet";
  const share = exploration / total;
  if (share > 0.8) return "exploration";
  if (share > 0.5) return "mostly exploration";
  return share > 0.2 ? "mostly belief" : "belief";
}

/** The topics of an item. Those that the items above already cover look faded. */
function chips(item, above, { diverse }) {
  return Object.entries(item.gains)
    .sort(([, a], [, b]) => b - a)
    .map(([topic, gain]) => {
      const share = above[topic] ?? 0;
      const faded = share > 2 / 3 ? "covered" : share > 1 / 3 ? "partly" : "fresh";
      return el("span", { class: `chip ${faded}` }, el("bdi", {}, topic), " ", el("b", {}, `${diverse ? "+" : ""}${number(gain)}`));
    });
}

/** The description of an item for people who cannot see its chips and bar. */
function reason(item, above, { diverse }) {
  const topics = Object.entries(item.gains).filter(([, gain]) => gain >= 0.005).map(([topic]) => topic);
  const repeated = Object.keys(item.gains).filter((topic) => above[topic] > 1 / 3);
  const parts = [topics.length ? `${diverse ? "Adds" : "Has"} ${joined(topics)}.` : "Adds no topic."];
  if (repeated.length) parts.push(`Topics that the items above already cover in part: ${joined(repeated)}.`);
  return `${parts.join(" ")} Belief ${number(item.belief)}, exploration ${number(item.exploration)}.`;
}

/**
 * The contents of a button or list entry for one item of a list.
 *
 * id: a prefix for the ids by which the parts refer to each other. kind: {diverse, coverage}.
 */
export function card(items, index, id, kind) {
  const item = items[index];
  const above = covered(items, kind, index);
  const largest = Math.max(...items.map((one) => Math.max(0, one.belief) + one.exploration));
  return [
    el("span", { class: "place", id: `${id}-place` }, String(index + 1)),
    el("span", { class: "name", id: `${id}-name`, dir: "auto" }, String(item.item)),
    el("span", { class: "chips", "aria-hidden": "true" }, chips(item, above, kind)),
    el("span", { class: "why", "aria-hidden": "true" }, indexBar(item.belief, item.exploration, largest), motive(item.belief, item.exploration)),
    el("span", { class: "unseen", id: `${id}-why` }, reason(item, above, kind)),
  ];
}
