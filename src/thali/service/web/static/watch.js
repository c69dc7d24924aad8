// Watch: a made-up person whose taste is hidden from several policies, which learn it side by side.

import * as api from "./api.js";
import { lineChart, place as along, span, swatch } from "./charts.js";
import { count, el, field, number, percent, say, select, sizes, svg } from "./dom.js";
import { Film } from "./film.js";

const USUAL = ["CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"];
const MOST = 6; // colours there are
const SPEEDS = [2, 10, 30, 100, 300, 1000, 3000];
const REDRAW_MS = 66;
const LATELY = 200; // steps of the latest click rate
const AHEAD_S = 4; // of film to have, before more is asked for

/** A taste at random: some topics much, most a little (Dirichlet(1/2), by squares of normal numbers). */
function randomTaste(topics) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return shares(topics, topics.map(() => normal() ** 2));
}

function shares(topics, values) {
  const sum = values.reduce((all, value) => all + value, 0);
  // Rounded down, so that they never sum to more than 1.
  return Object.fromEntries(topics.map((topic, at) => [topic, Math.floor((1e6 * values[at]) / sum) / 1e6]));
}

export function watch(place, service) {
  const chosen = new Set(USUAL.filter((name) => service.policies.includes(name)));
  const asked = { K: Math.min(service.learners[0].K, service.items), seed: newSeed(), theta: randomTaste(service.topics) };
  let film = null;
  let step = 0;
  let paused = false;
  let speed = 3;
  let over = false;
  let frame = 0;
  let before = null;
  let drawn = 0;

  function newSeed() {
    return crypto.getRandomValues(new Uint32Array(1))[0];
  }

  const error = el("p", { class: "error", role: "alert" });
  const at = el("output", { class: "step", "aria-live": "off" }); // it changes all the time: who pauses is told
  const pause = el("button", { type: "button", class: "main", click: () => (over ? begin({ seed: newSeed() }) : goOn(paused)) });
  const told = el("output", { "aria-live": "off" });
  const slider = el("input", { type: "range", min: 0, max: SPEEDS.length - 1, step: 1, value: speed, name: "speed", input: () => setSpeed(Number(slider.value)) });
  const chart = lineChart();
  const figures = el("tbody");
  const lists = el("div", { class: "lists" });
  const tastes = el("tbody");
  const drift = el("button", { type: "button", click: () => change(randomTaste(service.topics)) }, "Change the taste now");
  const toDrawn = el("button", { type: "button", click: () => { const theta = drawnTaste(); if (theta) change(theta); } }, "Change to this taste now");
  const sliders = new Map();
  const undrawn = el("p", { class: "error", role: "alert" });
  const choice = el("fieldset", { class: "choice" }, el("legend", {}, `Policies (up to ${MOST})`));

  function setSpeed(to) {
    speed = to;
    told.textContent = `up to ${count(SPEEDS[speed])} steps a second`;
    slider.setAttribute("aria-valuetext", told.textContent);
  }

  function hold(on) {
    paused = on;
    pause.textContent = over ? "Again" : paused ? "Go on" : "Pause";
  }

  /** By the person: what went wrong before is tried again. */
  function goOn(on) {
    if (on) error.textContent = "";
    hold(!on);
    if (on && film.end === 0) more();
    else if (!on) {
      draw();
      say(regrets());
    }
  }

  /** The state of things, in words. */
  function regrets() {
    const many = film.upTo(step);
    const told = [...film.runs].map(([name, run]) => `${name} ${number(run.regret[many - 1] ?? 0, 1)}`);
    return `Regret after ${count(many ? film.steps[many - 1] : 0)} steps: ${told.join(", ")}`;
  }

  /** A taste can be changed once there is one, up to a number of times, until the end. */
  function letChange() {
    for (const button of [drift, toDrawn]) {
      button.disabled = over || !film.changeable;
      if (button.disabled && document.activeElement === button) pause.focus(); // it cannot stay there
    }
  }

  function begin(changed) {
    Object.assign(asked, changed);
    error.textContent = "";
    film?.stop();
    const { simulated_steps: steps, traced, changes } = service.limits;
    const points = Math.floor(traced / (chosen.size * (asked.K + service.topics.length)));
    film = new Film({ policies: [...chosen], K: asked.K, seed: asked.seed, theta: asked.theta }, { most: Math.floor(steps / chosen.size), points, changes });
    step = 0;
    over = false;
    hold(false);
    letChange();
    if (changed.theta) setSliders(asked.theta);
    layOut();
    more();
  }

  async function more() {
    const mine = film;
    const { cut } = film;
    try {
      await film.grow();
      letChange();
    } catch (problem) {
      const { message } = api.refused(problem);
      if (mine !== film || cut !== film.cut) return;
      error.textContent = `${message}.`;
      hold(true);
      draw();
    }
  }

  /** Another taste from this moment on. */
  function change(theta) {
    film.change(Math.floor(step), theta);
    step = film.end;
    error.textContent = "";
    letChange();
    setSliders(theta);
    say("The taste has changed.");
    hold(false);
    more();
  }

  /** The largest at the end: only proportions count, and small ones are not rounded away. */
  function setSliders(theta) {
    const largest = Math.max(...service.topics.map((topic) => theta[topic] ?? 0));
    for (const [topic, one] of sliders) one.value = largest ? Math.round((100 * (theta[topic] ?? 0)) / largest) : 0;
  }

  function drawnTaste() {
    const values = service.topics.map((topic) => Number(sliders.get(topic).value));
    undrawn.textContent = "";
    if (values.some((value) => value > 0)) return shares(service.topics, values);
    undrawn.textContent = "Draw a taste first: at least one topic must be above 0.";
    return null;
  }

  // What stays while numbers change

  const rows = new Map();
  const cards = new Map();
  const marks = new Map();

  function layOut() {
    const names = [...chosen];
    rows.clear();
    cards.clear();
    marks.clear();
    figures.replaceChildren(...[...names, "best"].map((name, kind) => {
      const row = Object.fromEntries(["regret", "rate", "lately", "off"].map((what) => [what, el("td", { class: "num", "data-policy": name, "data-figure": what }, "–")]));
      rows.set(name, row);
      return el("tr", {}, el("th", { scope: "row" }, name === "best" ? "The best list, expected" : [swatch(kind), name]), ...Object.values(row));
    }));
    lists.replaceChildren(...["best", ...names].map((name, at) => {
      const items = el("ol");
      cards.set(name, items);
      return el("section", { class: "card", "aria-label": name === "best" ? "The best list" : `The list of ${name}`, "data-list": name },
        el("h3", {}, at ? swatch(at - 1) : null, name === "best" ? "The best list" : name), items);
    }));
    tastes.replaceChildren(...service.topics.map((topic) => {
      const parts = { truth: svg("rect", { class: "truth", y: 1, height: 8 }), zero: svg("line", { class: "zero", y1: 0, y2: 10 }), learned: names.map((_, kind) => svg("line", { class: `tick kind${kind}`, visibility: "hidden", y1: (5 * kind) / names.length, y2: 5 + (5 * (kind + 1)) / names.length })), value: el("td", { class: "num" }), said: el("span", { class: "unseen" }) };
      marks.set(topic, parts);
      return el("tr", { "data-topic": topic }, el("th", { scope: "row", title: topic }, topic),
        el("td", { class: "chart" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts.truth, parts.zero, parts.learned), parts.said), parts.value);
    }));
    draw();
  }

  /** The page at this step. */
  function draw() {
    const many = film.upTo(step);
    const waits = film.growing !== null && step >= film.end ? ", waiting for the service" : "";
    at.textContent = many ? `Step ${count(film.steps[many - 1])} of ${count(film.most)}${waits}` : paused ? "Not started" : "Starting … (the first time ever it compiles for a while)";
    at.dataset.step = many ? film.steps[many - 1] : 0;
    at.dataset.over = over;
    const names = [...chosen];
    const xs = [0, ...film.steps.slice(0, many)];
    const curves = names.map((name, kind) => ({ kind, xs, ys: [0, ...film.runs.get(name).regret.slice(0, many)] }));
    chart.draw({ label: regrets(), curves, end: xs.at(-1), marks: film.tastes.slice(1).map((one) => one.step) });
    if (!many) return;
    const now = film.steps[many - 1];
    const { theta, best_list: best, best: attainable } = film.taste(now);
    const truth = service.topics.map((topic) => theta[topic] ?? 0);
    const from = film.upTo(Math.max(0, now - LATELY));
    for (const name of names) {
      const run = film.runs.get(name);
      const row = rows.get(name);
      const clicks = run.clicks[many - 1];
      const since = from ? run.clicks[from - 1] : 0;
      const estimate = run.estimates[many - 1];
      row.regret.textContent = number(run.regret[many - 1], 1);
      row.rate.textContent = percent(clicks / now, 1);
      row.lately.textContent = percent((clicks - since) / (now - (from ? film.steps[from - 1] : 0)), 1);
      row.off.textContent = estimate ? number(Math.hypot(...estimate.map((value, j) => value - truth[j]))) : "–";
      itemList(cards.get(name), run.lists[many - 1], best);
    }
    itemList(cards.get("best"), best ?? [], null);
    rows.get("best").regret.textContent = number(0, 1);
    rows.get("best").lately.textContent = attainable === null ? "–" : percent(attainable, 1);
    const known = names.map((name) => film.runs.get(name).estimates[many - 1]);
    const [low, high] = span(known.flatMap((one) => one ?? []), -0.25, 0.5);
    for (const [j, topic] of service.topics.entries()) {
      const parts = marks.get(topic);
      const x = (value) => along(value, low, high);
      parts.truth.setAttribute("x", x(0));
      parts.zero.setAttribute("x1", x(0));
      parts.zero.setAttribute("x2", x(0));
      parts.truth.setAttribute("width", x(truth[j]) - x(0));
      parts.value.textContent = number(truth[j]);
      const said = [];
      for (const [kind, tick] of parts.learned.entries()) {
        tick.setAttribute("visibility", known[kind] ? "visible" : "hidden");
        if (!known[kind]) continue;
        tick.setAttribute("x1", x(known[kind][j]));
        tick.setAttribute("x2", x(known[kind][j]));
        said.push(`${names[kind]} ${number(known[kind][j])}`);
      }
      parts.said.textContent = said.join(", ");
    }
  }

  function itemList(place, items, best) {
    const good = new Set(best ?? []);
    const key = JSON.stringify([items, best]);
    if (place.dataset.key === key) return;
    place.dataset.key = key;
    place.replaceChildren(...items.map((item) => el("li", { class: good.has(item) ? "good" : "" }, el("bdi", {}, String(item)), good.has(item) ? el("span", { class: "unseen" }, " (in the best list)") : null)));
  }

  function tick(now) {
    frame = requestAnimationFrame(tick);
    const passed = before === null ? 0 : Math.min(0.25, (now - before) / 1000);
    before = now;
    if (film === null || paused || over) return;
    step = Math.min(film.end, step + passed * SPEEDS[speed]);
    if (film.end - step < AHEAD_S * SPEEDS[speed] && film.end < film.most && film.growing === null) more();
    if (step >= film.most) {
      over = true;
      letChange();
      hold(false);
      say(`The end. ${regrets()}`);
    }
    if (over || now - drawn > REDRAW_MS) {
      drawn = now;
      draw();
    }
  }

  function pick() {
    const boxes = service.policies.map((name) => {
      const box = el("input", { type: "checkbox", name: "policy", value: name, checked: chosen.has(name), change: () => {
        if (box.checked) chosen.add(name);
        else chosen.delete(name);
        limit();
        begin({});
      } });
      return el("label", { class: "check" }, box, el("span", {}, name));
    });
    function limit() {
      for (const { firstChild: box } of boxes) box.disabled = box.checked ? chosen.size === 1 : chosen.size === MOST;
    }
    limit();
    choice.append(...boxes);
  }

  for (const topic of service.topics) {
    sliders.set(topic, el("input", { type: "range", min: 0, max: 100, value: 0, name: "taste" }));
  }
  pick();
  setSpeed(speed);
  setSliders(asked.theta);
  place.append(
    el("h1", {}, "Watch policies learn a hidden taste"),
    el("p", { class: "lead" }, "A made-up person reads each list from the top and clicks, by chance, the first item that attracts them. Each policy shows them lists and learns from the clicks; none is told the taste, and all have the same luck."),
    el("div", { class: "row steering" }, pause,
      el("label", { class: "field speed" }, el("span", {}, "Speed"), slider, told),
      el("button", { type: "button", click: () => begin({ theta: randomTaste(service.topics), seed: newSeed() }) }, "New person"),
      el("button", { type: "button", click: () => begin({ seed: newSeed() }) }, "Same person, new luck"),
      drift, at),
    error,
    el("div", { class: "columns" },
      el("section", { class: "card", "aria-label": "Regret" }, el("h2", {}, "Regret: clicks missed, against the best list"), chart.element,
        el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures by policy" },
          el("table", { class: "figures" }, el("caption", { class: "unseen" }, "Figures by policy"),
            el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Policy"), ...["Regret", "Click rate", "Lately", "Taste off by"].map((name) => el("th", { scope: "col", class: "num" }, name)))), figures)),
        el("p", { class: "note" }, `Lately: over the last ${LATELY} steps or so. Taste off by: the distance of the learned taste from the true one; some policies learn items, not topics.`)),
      el("section", { class: "card", "aria-label": "True and learned taste" },
        el("table", { class: "taste tall" }, el("caption", {}, "True taste and learned tastes"), el("thead", {}, el("tr", {}, ...["Topic", "Taste"].map((name) => el("th", { scope: "col" }, name)), el("th", { scope: "col", class: "num" }, "True"))), tastes),
        el("p", { class: "note" }, el("i", { class: "sample truth" }), "true taste; a mark in its colour for what each policy has learned, from above in the order of the table"))),
    el("h2", {}, "Their lists now"),
    lists,
    el("div", { class: "columns" },
      el("details", { class: "card" }, el("summary", {}, "Draw a taste"),
        el("div", { class: "sliders" }, ...[...sliders].map(([topic, one]) => field(topic, one))),
        el("div", { class: "row" },
          el("button", { type: "button", click: () => { const theta = drawnTaste(); if (theta) begin({ theta, seed: newSeed() }); } }, "A new person with this taste"), toDrawn),
        undrawn,
        el("p", { class: "note" }, "Only the proportions count: they are made to sum to 1.")),
      el("details", { class: "card" }, el("summary", {}, "Policies and K"),
        field("Items in a list, K", select(sizes(service, asked.K), asked.K, (value) => begin({ K: Number(value) }), { name: "K" })), choice)),
  );
  begin({});
  frame = requestAnimationFrame(tick);
  return () => {
    cancelAnimationFrame(frame);
    film.stop();
  };
}
