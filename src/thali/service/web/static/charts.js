// Charts as SVG: taste by topic, curves over steps, figures over hours. Numbers stand beside them as text.

import { el, number, svg } from "./dom.js";

/** Where a value lies on an axis of 100. */
export const place = (value, low, high) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));

/** Round limits for an axis of tastes: from low to high, or as far as they go. */
export function span(values, low = -1, high = 1.5) {
  const quarter = (value, round) => round(4 * value) / 4;
  return [quarter(Math.min(low, ...values), Math.floor), quarter(Math.max(high, ...values), Math.ceil)];
}

/**
 * Taste by topic as a table: bars with their intervals, in numbers too. Rows stay, so that bars move from what they were.
 * update([{topic, estimate, half: of its interval}], {lit: topics to point out, covered: share of each topic that the list has})
 */
export function tasteTable(caption, { plate = false } = {}) {
  const rows = new Map();
  const body = el("tbody");
  const axis = el("th", { scope: "col" }, "Taste");
  const head = el("tr", {}, el("th", { scope: "col" }, "Topic"), axis,
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
    parts.row = el("tr", {}, el("th", { scope: "row", title: topic }, topic), el("td", { class: "chart" }, chart), parts.value, plate ? parts.has : null);
    parts.row.dataset.topic = topic;
    body.append(parts.row);
    return parts;
  }

  function update(taste, { lit = [], covered = {} } = {}) {
    const [low, high] = span(taste.map((one) => one.estimate));
    axis.textContent = `Taste, ${String(low).replace("-", "\u2212")} to ${high}`;
    for (const { topic, estimate, half } of taste) {
      if (!rows.has(topic)) rows.set(topic, row(topic));
      const parts = rows.get(topic);
      const zero = place(0, low, high);
      const end = place(estimate, low, high);
      stretch(parts.band, place(estimate - half, low, high), place(estimate + half, low, high));
      stretch(parts.bar, Math.min(zero, end), Math.max(zero, end));
      parts.zero.setAttribute("x1", zero);
      parts.zero.setAttribute("x2", zero);
      parts.value.textContent = `${number(estimate)} ± ${number(half)}`;
      parts.row.dataset.estimate = estimate;
      parts.row.dataset.width = half;
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

/** An index as a bar, against the largest of the list: belief, exploration, and what a belief below 0 takes from it. */
export function indexBar(belief, exploration, largest) {
  const at = (value) => (largest > 0 ? (100 * value) / largest : 0);
  const known = Math.max(0, belief);
  const lost = Math.min(exploration, Math.max(0, -belief));
  return svg("svg", { class: "index", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "belief", width: at(known), height: 6 }),
    svg("rect", { class: "exploration", x: at(known), width: at(exploration - lost), height: 6 }),
    svg("rect", { class: "lost", x: at(known + exploration - lost), width: at(lost), height: 6 }));
}

/** The colour and the dashes of a curve. */
export function swatch(kind) {
  return svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }, svg("line", { class: `curve kind${kind}`, x1: 0, x2: 24, y1: 4, y2: 4 }));
}

/** Numbers for an axis from 0 to at least the largest, few and round. */
function ticks(largest, many = 4) {
  const rough = Math.max(largest, 1e-9) / many;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((by) => by * size >= rough);
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, at) => at * step);
}

const plain = (value) => (value >= 1000 ? `${value / 1000}k` : `${Number(value.toPrecision(6))}`);

/** An empty chart, and where its parts are at the width that it has on the page now. */
function frame(kind, height, room) {
  const chart = svg("svg", { class: kind, role: "img", height });
  function measure(right, top) {
    const width = Math.max(200, chart.clientWidth || 640);
    chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return {
      px: (x) => room.left + ((width - room.left - room.right) * x) / right,
      py: (y) => height - room.bottom - ((height - room.top - room.bottom) * y) / top,
      width,
    };
  }
  return { chart, measure };
}

const polyline = (kind, points) => svg("polyline", { class: `curve kind${kind}`, points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") });

/**
 * Curves over steps, drawn anew by draw({label, curves: [{kind, xs, ys}], end, marks}).
 * kind: 0, 1, ... picks colour and dashes; marks: steps to be marked.
 */
export function lineChart() {
  const height = 260;
  const room = { left: 44, right: 12, top: 8, bottom: 22 };
  const { chart, measure } = frame("lines", height, room);
  function draw({ label, curves, end, marks = [] }) {
    const right = Math.max(1, end);
    const up = ticks(Math.max(...curves.flatMap((curve) => curve.ys)) || 1);
    const { px, py, width } = measure(right, up.at(-1));
    const parts = [];
    for (const value of up) {
      parts.push(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(value), y2: py(value) }));
      parts.push(svg("text", { x: room.left - 6, y: py(value) + 4, "text-anchor": "end" }, plain(value)));
    }
    for (const step of ticks(right).filter((value) => value <= right)) {
      parts.push(svg("text", { x: px(step), y: height - 4, "text-anchor": step > 0.95 * right ? "end" : "middle" }, plain(step)));
    }
    for (const step of marks) parts.push(svg("line", { class: "mark", x1: px(step), x2: px(step), y1: room.top, y2: height - room.bottom }));
    for (const { kind, xs, ys } of curves) parts.push(polyline(kind, xs.map((step, at) => [px(step), py(ys[at])])));
    chart.setAttribute("aria-label", label);
    chart.replaceChildren(...parts);
  }
  return { element: chart, draw };
}

/**
 * A figure by hours, one point an hour for each learner: draw([first, last], [{name, kind, at, values}]).
 * share: whether it is one of 0 to 1.
 */
export function hourChart(title, { share = false } = {}) {
  const height = 120;
  const room = { left: 40, right: 10, top: 8, bottom: 20 };
  const { chart, measure } = frame("hours", height, room);
  function draw([first, last], series) {
    const up = share ? [0, 0.5, 1] : ticks(Math.max(1, ...series.flatMap((one) => one.values)), 3);
    const all = Math.max(1, last - first);
    const { px, py, width } = measure(all, up.at(-1));
    const told = (hour) => {
      const date = new Date(3600e3 * hour);
      return all <= 30 ? date.toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    };
    const value = (number) => (share ? `${Math.round(100 * number)}%` : plain(number));
    const parts = [];
    for (const at of up) {
      parts.push(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(at), y2: py(at) }));
      parts.push(svg("text", { x: room.left - 5, y: py(at) + 4, "text-anchor": "end" }, value(at)));
    }
    parts.push(svg("text", { x: px(0), y: height - 4 }, told(first)), svg("text", { x: px(all), y: height - 4, "text-anchor": "end" }, told(last)));
    for (const { kind, at, values } of series) {
      const points = at.map((hour, k) => [px(hour - first), py(values[k])]);
      parts.push(polyline(kind, points));
      if (points.length < 40) for (const [cx, cy] of points) parts.push(svg("circle", { class: `dot kind${kind}`, cx, cy, r: 2.5 }));
    }
    const latest = series.map((one) => `${one.name} ${value(one.values.at(-1))}`).join(", ");
    chart.setAttribute("aria-label", `${title}; latest: ${latest || "nothing yet"}`);
    chart.replaceChildren(...parts);
  }
  return { element: el("figure", { class: "card" }, el("figcaption", {}, title), chart), draw };
}
