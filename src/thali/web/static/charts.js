// Charts as SVG: taste by topic, curves over steps, figures over hours. Numbers stand beside them as text.

import { el, number, svg } from "./dom.js";

/** A length of a bar, as part of 100. */
const place = (value, low, high) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));

/** Round limits for an axis of tastes: from -1/2 to 1, or as far as they go. */
export function span(values) {
  const half = (value, round) => round(2 * value) / 2;
  return [half(Math.min(-0.5, ...values), Math.floor), half(Math.max(1, ...values), Math.ceil)];
}

/**
 * Taste by topic as a table: bars with their intervals, in numbers too. Rows stay, so that bars move from what they were.
 * update([{topic, estimate, low, high}], {lit: topics to point out, covered: share of each topic that the list has})
 */
export function tasteTable(caption, { plate = false } = {}) {
  const rows = new Map();
  const body = el("tbody");
  const head = el("tr", {}, el("th", { scope: "col" }, "Topic"), el("th", { scope: "col" }, "Taste"),
    el("th", { scope: "col", class: "num" }, "Learned"), plate ? el("th", { scope: "col", class: "num" }, "In this list") : null);
  const element = el("table", { class: "taste" }, el("caption", {}, caption), el("thead", {}, head), body);

  function row(topic) {
    const parts = {
      band: svg("rect", { class: "band", y: 1, height: 8 }),
      bar: svg("rect", { class: "bar", y: 3, height: 4 }),
      zero: svg("line", { class: "zero", y1: 0, y2: 10 }),
      value: el("td", { class: "num" }),
      has: el("td", { class: "num has" }),
    };
    const chart = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts.band, parts.zero, parts.bar);
    parts.row = el("tr", {}, el("th", { scope: "row" }, topic), el("td", { class: "chart" }, chart), parts.value, plate ? parts.has : null);
    parts.row.dataset.topic = topic;
    body.append(parts.row);
    return parts;
  }

  function update(taste, { lit = [], covered = {} } = {}) {
    const [low, high] = span(taste.map((one) => one.estimate));
    for (const { topic, estimate, low: from, high: to } of taste) {
      if (!rows.has(topic)) rows.set(topic, row(topic));
      const parts = rows.get(topic);
      const zero = place(0, low, high);
      const end = place(estimate, low, high);
      stretch(parts.band, place(from, low, high), place(to, low, high));
      stretch(parts.bar, Math.min(zero, end), Math.max(zero, end));
      parts.zero.setAttribute("x1", zero);
      parts.zero.setAttribute("x2", zero);
      parts.value.textContent = `${number(estimate)} ± ${number(Math.min(9.99, (to - from) / 2))}`;
      parts.row.dataset.estimate = estimate;
      parts.row.dataset.width = (to - from) / 2;
      parts.row.classList.toggle("lit", lit.includes(topic));
      parts.has.textContent = `${Math.round(100 * (covered[topic] ?? 0))}\u2009%`;
      parts.has.classList.toggle("none", !(covered[topic] > 0));
    }
    for (const [topic, parts] of rows) {
      if (taste.every((one) => one.topic !== topic)) {
        parts.row.remove();
        rows.delete(topic);
      }
    }
  }
  return { element, update };
}

/** Geometry as style, so that it moves softly where people do not mind movement. */
function stretch(rect, from, to) {
  rect.style.x = `${from}px`;
  rect.style.width = `${Math.max(0, to - from)}px`;
}

/** Belief and curiosity as one bar, of the largest index of the list. */
export function indexBar(belief, exploration, largest) {
  const known = Math.max(0, belief);
  const at = (value) => (largest > 0 ? (100 * value) / largest : 0);
  return svg("svg", { class: "index", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "belief", width: at(known), height: 6 }),
    svg("rect", { class: "curiosity", x: at(known), width: at(exploration), height: 6 }));
}

/** Numbers for an axis from 0 to at least the largest, few and round. */
export function ticks(largest, many = 4) {
  const rough = Math.max(largest, 1e-9) / many;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((by) => by * size >= rough);
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, at) => at * step);
}

const plain = (value) => (value >= 1000 ? `${value / 1000}k` : `${Number(value.toPrecision(6))}`);

/**
 * Curves over steps, drawn anew by draw({label, curves: [{name, kind, xs, ys}], end, marks}).
 * kind: 0, 1, ... picks colour and dashes; marks: steps to be marked.
 */
export function lineChart({ width = 640, height = 300, x = "", y = "" } = {}) {
  const room = { left: 48, right: 12, top: 12, bottom: 36 };
  const chart = svg("svg", { class: "lines", viewBox: `0 0 ${width} ${height}`, role: "img" });
  function draw({ label, curves, end, marks = [] }) {
    const largest = Math.max(1e-9, ...curves.flatMap((curve) => curve.ys));
    const across = ticks(Math.max(1, end));
    const up = ticks(largest);
    const right = Math.max(1, end);
    const top = Math.max(up.at(-1), largest);
    const px = (step) => room.left + ((width - room.left - room.right) * step) / right;
    const py = (value) => height - room.bottom - ((height - room.top - room.bottom) * value) / top;
    const parts = [];
    for (const value of up) {
      parts.push(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(value), y2: py(value) }));
      parts.push(svg("text", { x: room.left - 6, y: py(value) + 4, "text-anchor": "end" }, plain(value)));
    }
    for (const step of across.filter((value) => value <= right)) {
      parts.push(svg("text", { x: px(step), y: height - room.bottom + 16, "text-anchor": "middle" }, plain(step)));
    }
    for (const step of marks) parts.push(svg("line", { class: "mark", x1: px(step), x2: px(step), y1: room.top, y2: height - room.bottom }));
    parts.push(svg("text", { x: width - room.right, y: height - 4, "text-anchor": "end" }, x));
    parts.push(svg("text", { x: room.left + 4, y: room.top + 4 }, y));
    for (const { kind, xs, ys } of curves) {
      const points = xs.map((step, at) => `${px(step).toFixed(1)},${py(ys[at]).toFixed(1)}`).join(" ");
      parts.push(svg("polyline", { class: `curve kind${kind}`, points }));
    }
    chart.setAttribute("aria-label", label);
    chart.replaceChildren(...parts);
  }
  return { element: chart, draw };
}

/** A figure by hours: one point an hour for each learner. hours: [first, last]; series: [{name, kind, at, values}] */
export function hourChart(title, hours, series, { share = false } = {}) {
  const width = 320;
  const height = 130;
  const room = { left: 40, right: 10, top: 10, bottom: 22 };
  const found = series.flatMap((one) => one.values);
  const up = share ? [0, 0.5, 1] : ticks(Math.max(1, ...found), 3);
  const all = Math.max(1, hours[1] - hours[0]);
  const px = (hour) => room.left + ((width - room.left - room.right) * (hour - hours[0])) / all;
  const py = (value) => height - room.bottom - ((height - room.top - room.bottom) * value) / up.at(-1);
  const told = (hour) => {
    const date = new Date(3600e3 * hour);
    return all <= 30 ? `${String(date.getHours()).padStart(2, "0")}:00` : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  };
  const last = series.map((one) => `${one.name} ${one.values.length ? (share ? number(one.values.at(-1)) : plain(one.values.at(-1))) : "nothing"}`).join(", ");
  const chart = svg("svg", { class: "hours", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} by hour; latest: ${last || "nothing yet"}` });
  for (const value of up) {
    chart.append(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(value), y2: py(value) }));
    chart.append(svg("text", { x: room.left - 5, y: py(value) + 4, "text-anchor": "end" }, share ? `${100 * value}%` : plain(value)));
  }
  for (const [hour, anchor] of [[hours[0], "start"], [hours[1], "end"]]) {
    chart.append(svg("text", { x: px(hour), y: height - 5, "text-anchor": anchor }, told(hour)));
  }
  for (const { kind, at, values } of series) {
    if (values.length > 1) chart.append(svg("polyline", { class: `curve kind${kind}`, points: at.map((hour, k) => `${px(hour).toFixed(1)},${py(values[k]).toFixed(1)}`).join(" ") }));
    if (values.length < 40) for (const [k, hour] of at.entries()) chart.append(svg("circle", { class: `dot kind${kind}`, cx: px(hour), cy: py(values[k]), r: 2.5 }));
  }
  return el("figure", { class: "card" }, el("figcaption", {}, title), chart);
}
