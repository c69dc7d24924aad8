// Charts as SVG: taste by topic, curves over steps, and values over hours. The numbers are also shown as text.

import { el, number, svg } from "./dom.js";

/** The position of a value on an axis of length 100. */
export const place = (value, low, high) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));

/** Rounded limits for an axis of tastes. It goes from low to high, or further if the values do. */
export function span(values, low = -1, high = 1.5) {
  const quarter = (value, round) => round(4 * value) / 4;
  return [quarter(Math.min(low, ...values), Math.floor), quarter(Math.max(high, ...values), Math.ceil)];
}

/**
 * A table of tastes by topic, with bars, intervals and numbers. Rows are reused, so that changes of bars are animated.
 *
 * update(tastes, {lit, covered}): tastes is a list of {topic, estimate, half}, where half is half the width of the
 * interval. lit: the topics to highlight. covered: how much of each topic the list covers.
 */
export function tasteTable(caption, { plate = false } = {}) {
  const rows = new Map();
  const body = el("tbody");
  const axis = el("th", { scope: "col" }, "Taste");
  const head = el("tr", {}, el("th", { scope: "col" }, "Topic"), axis,
    el("th", { scope: "col", class: "num" }, "Learned"), plate ? el("th", { scope: "col", class: "num" }, "Covered") : null);
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

/** Set the geometry as a style, so that changes are animated, unless the person prefers reduced motion. */
function stretch(rect, from, to) {
  rect.style.x = `${from}px`;
  rect.style.width = `${Math.max(0, to - from)}px`;
}

/**
 * An item's index as a bar, relative to the largest index of the list. Its parts are belief, exploration, and the part
 * of the exploration that a negative belief cancels out.
 */
export function indexBar(belief, exploration, largest) {
  const scaled = (value) => (largest > 0 ? (100 * value) / largest : 0);
  const positive = Math.max(0, belief);
  const lost = Math.min(exploration, Math.max(0, -belief));
  return svg("svg", { class: "index", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "belief", width: scaled(positive), height: 6 }),
    svg("rect", { class: "exploration", x: scaled(positive), width: scaled(exploration - lost), height: 6 }),
    svg("rect", { class: "lost", x: scaled(positive + exploration - lost), width: scaled(lost), height: 6 }));
}

/** A sample of a curve, with its color and dashes, for legends. */
export function swatch(kind) {
  return svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }, svg("line", { class: `curve kind${kind}`, x1: 0, x2: 24, y1: 4, y2: 4 }));
}

/** A few round numbers for an axis, from 0 to at least the largest value. */
function ticks(largest, count = 4) {
  const rough = Math.max(largest, 1e-9) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((by) => by * size >= rough);
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, index) => index * step);
}

const short = (value) => (value >= 1000 ? `${value / 1000}k` : `${Number(value.toPrecision(6))}`);

/** An empty chart, and a function that computes positions in it at its current width on the page. */
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
 * A chart of curves over steps. draw({label, curves: [{kind, xs, ys}], end, marks}) draws it from scratch.
 *
 * kind: a number from 0, which selects the color and dashes. marks: steps to mark with a vertical line.
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
      parts.push(svg("text", { x: room.left - 6, y: py(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const step of ticks(right).filter((value) => value <= right)) {
      parts.push(svg("text", { x: px(step), y: height - 4, "text-anchor": step > 0.95 * right ? "end" : "middle" }, short(step)));
    }
    for (const step of marks) parts.push(svg("line", { class: "mark", x1: px(step), x2: px(step), y1: room.top, y2: height - room.bottom }));
    for (const { kind, xs, ys } of curves) parts.push(polyline(kind, xs.map((step, index) => [px(step), py(ys[index])])));
    chart.setAttribute("aria-label", label);
    chart.replaceChildren(...parts);
  }
  return { element: chart, draw };
}

/**
 * A chart of values over hours, with one curve per learner. draw([first, last], [{name, kind, at, values}]) draws it.
 *
 * at: the hours of the values. share: whether the values are shares from 0 to 1.
 */
export function hourChart(title, { share = false } = {}) {
  const height = 120;
  const room = { left: 40, right: 10, top: 8, bottom: 20 };
  const { chart, measure } = frame("hours", height, room);
  function draw([first, last], series) {
    const up = share ? [0, 0.5, 1] : ticks(Math.max(1, ...series.flatMap((one) => one.values)), 3);
    const total = Math.max(1, last - first);
    const { px, py, width } = measure(total, up.at(-1));
    const formatHour = (hour) => {
      const date = new Date(3600e3 * hour);
      return total <= 30 ? date.toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    };
    const formatValue = (value) => (share ? `${Math.round(100 * value)}%` : short(value));
    const parts = [];
    for (const value of up) {
      parts.push(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(value), y2: py(value) }));
      parts.push(svg("text", { x: room.left - 5, y: py(value) + 4, "text-anchor": "end" }, formatValue(value)));
    }
    parts.push(svg("text", { x: px(0), y: height - 4 }, formatHour(first)), svg("text", { x: px(total), y: height - 4, "text-anchor": "end" }, formatHour(last)));
    for (const { kind, at, values } of series) {
      const points = at.map((hour, k) => [px(hour - first), py(values[k])]);
      parts.push(polyline(kind, points));
      if (points.length < 40) for (const [cx, cy] of points) parts.push(svg("circle", { class: `dot kind${kind}`, cx, cy, r: 2.5 }));
    }
    const latest = series.map((one) => `${one.name} ${formatValue(one.values.at(-1))}`).join(", ");
    chart.setAttribute("aria-label", `${title}. Latest: ${latest || "no data yet"}`);
    chart.replaceChildren(...parts);
  }
  return { element: el("figure", { class: "card" }, el("figcaption", {}, title), chart), draw };
}
