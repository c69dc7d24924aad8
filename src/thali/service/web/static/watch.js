// Watch: several policies learn the hidden taste of a simulated person, side by side.

import * as api from "./api.js";
import { lineChart, place as along, span, swatch } from "./charts.js";
import { announce, count, el, field, listLengths, number, percent, select, sentence, svg } from "./dom.js";
import { Film } from "./film.js";

const DEFAULT_POLICIES = ["CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"];
const MAX_POLICIES = 6; // the number of colors
const SPEEDS = [2, 10, 30, 100, 300, 1000, 3000];
const REDRAW_MS = 66;
const RECENT = 200; // the number of steps for the recent click rate
const AHEAD_S = 4; // request the next part of the film when fewer seconds than this remain

/** A random taste: high for some topics, low for most (Dirichlet(1/2), from squares of normal numbers). */
function randomTaste(topics) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return shares(topics, topics.map(() => normal() ** 2));
}

function shares(topics, values) {
  const sum = values.reduce((all, value) => all + value, 0);
  // Rounded down, so that the sum is never more than 1.
  return Object.fromEntries(topics.map((topic, index) => [topic, Math.floor((1e6 * values[index]) / sum) / 1e6]));
}

export function watch(place, service) {
  const chosen = new Set(DEFAULT_POLICIES.filter((name) => service.policies.includes(name)));
  const settings = { K: Math.min(service.learners[0].K, service.items), seed: newSeed(), theta: randomTaste(service.topics) };
  let film = null;
  let step = 0;
  let paused = false;
  let speed = 3;
  let over = false;
  let begun = 0;
  let frame = 0;
  let previousTime = null;
  let drawnAt = 0;

  function newSeed() {
    return crypto.getRandomValues(new Uint32Array(1))[0];
  }

  const error = el("p", { class: "error", role: "alert" });
  const stepText = el("output", { class: "step", "aria-live": "off" }); // changes all the time, so it is announced only on pause
  const pauseButton = el("button", { type: "button", class: "main", click: () => (over ? begin({ seed: newSeed() }) : pauseOrResume()) });
  const speedText = el("output", { "aria-live": "off" });
  const slider = el("input", { type: "range", min: 0, max: SPEEDS.length - 1, step: 1, value: speed, name: "speed", input: () => setSpeed(Number(slider.value)) });
  const chart = lineChart();
  const figures = el("tbody");
  const lists = el("div", { class: "lists" });
  const tastes = el("tbody");
  const changeButton = el("button", { type: "button", click: () => change(randomTaste(service.topics)) }, "Change the taste now");
  const changeToSliders = el("button", { type: "button", click: () => { const theta = sliderTaste(); if (theta) change(theta); } }, "Change to this taste now");
  const sliders = new Map();
  const sliderError = el("p", { class: "error", role: "alert" });
  const choice = el("fieldset", { class: "choice" }, el("legend", {}, `Policies (up to ${MAX_POLICIES})`));

  function setSpeed(index) {
    speed = index;
    speedText.textContent = `up to ${count(SPEEDS[speed])} steps/s`;
    slider.setAttribute("aria-valuetext", `up to ${count(SPEEDS[speed])} steps per second`);
  }

  function setPaused(value) {
    paused = value;
    pauseButton.textContent = over ? "Run again" : paused ? "Resume" : "Pause";
  }

  /** The person has pressed the button. If a request failed, resuming sends it again. */
  function pauseOrResume() {
    setPaused(!paused);
    if (paused) {
      draw();
      announce(regretText());
    } else {
      error.textContent = "";
      if (film.end === 0) loadMore();
    }
  }

  /** The regret of all policies at the current step, in words. */
  function regretText() {
    const length = film.upTo(step);
    const values = [...film.runs].map(([name, run]) => `${name} ${number(run.regret[length - 1] ?? 0, 1)}`);
    return `Regret (clicks missed) after ${count(length ? film.steps[length - 1] : 0)} steps: ${values.join(", ")}`;
  }

  /** Enable the buttons that change the taste, or disable them if that is impossible before the start or after the end. */
  function updateChangeButtons() {
    for (const button of [changeButton, changeToSliders]) {
      button.disabled = over || !film.changeable;
      if (button.disabled && document.activeElement === button) pauseButton.focus(); // a disabled button cannot keep the focus
    }
  }

  function begin(changes) {
    Object.assign(settings, changes);
    error.textContent = "";
    film?.stop();
    const { limits } = service;
    const points = Math.floor(limits.traced / (chosen.size * (settings.K + service.topics.length)));
    film = new Film({ policies: [...chosen], ...settings }, { most: Math.floor(limits.simulated_steps / chosen.size), points, changes: limits.changes });
    step = 0;
    begun = performance.now();
    over = false;
    setPaused(false);
    updateChangeButtons();
    if (changes.theta) setSliders(settings.theta);
    layOut();
    loadMore();
  }

  async function loadMore() {
    const current = film;
    const { version } = film;
    try {
      await film.grow();
      updateChangeButtons();
    } catch (failure) {
      const { message } = api.requestError(failure);
      if (current !== film || version !== film.version) return;
      error.textContent = sentence(message);
      setPaused(true);
      draw();
    }
  }

  /** Change the taste from the current step on. */
  function change(theta) {
    film.change(Math.floor(step), theta);
    step = film.end;
    error.textContent = "";
    updateChangeButtons();
    setSliders(theta);
    announce("The taste has changed.");
    setPaused(false);
    loadMore();
  }

  /** Set the sliders to a taste. The largest is at the maximum, because only proportions count, so small ones stay visible. */
  function setSliders(theta) {
    const largest = Math.max(...service.topics.map((topic) => theta[topic] ?? 0));
    for (const [topic, one] of sliders) one.value = largest ? Math.round((100 * (theta[topic] ?? 0)) / largest) : 0;
  }

  function sliderTaste() {
    const values = service.topics.map((topic) => Number(sliders.get(topic).value));
    sliderError.textContent = "";
    if (values.some((value) => value > 0)) return shares(service.topics, values);
    sliderError.textContent = "Choose a taste first: move at least one slider above 0.";
    return null;
  }

  // The elements that stay while their numbers change

  const rows = new Map();
  const cards = new Map();
  const marks = new Map();

  function layOut() {
    const names = [...chosen];
    rows.clear();
    cards.clear();
    marks.clear();
    figures.replaceChildren(...[...names, "best"].map((name, kind) => {
      const row = Object.fromEntries(["regret", "rate", "lately", "off"].map((figure) => [figure, el("td", { class: "num", "data-policy": name, "data-figure": figure }, "–")]));
      rows.set(name, row);
      return el("tr", {}, el("th", { scope: "row" }, name === "best" ? "Best list (expected)" : [swatch(kind), name]), ...Object.values(row));
    }));
    lists.replaceChildren(...["best", ...names].map((name, index) => {
      const items = el("ol");
      cards.set(name, items);
      return el("section", { class: "card", "aria-label": name === "best" ? "Best list" : `List of ${name}`, "data-list": name },
        el("h3", {}, index ? swatch(index - 1) : null, name === "best" ? "Best list" : name), items);
    }));
    tastes.replaceChildren(...service.topics.map((topic) => {
      const parts = { truth: svg("rect", { class: "truth", y: 1, height: 8 }), zero: svg("line", { class: "zero", y1: 0, y2: 10 }), learned: names.map((_, kind) => svg("line", { class: `tick kind${kind}`, visibility: "hidden", y1: (5 * kind) / names.length, y2: 5 + (5 * (kind + 1)) / names.length })), value: el("td", { class: "num" }), text: el("span", { class: "unseen" }) };
      marks.set(topic, parts);
      return el("tr", { "data-topic": topic }, el("th", { scope: "row", title: topic }, topic),
        el("td", { class: "chart" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts.truth, parts.zero, parts.learned), parts.text), parts.value);
    }));
    draw();
  }

  /** What the page says while it waits for the first steps of a run. */
  function preparing() {
    const seconds = Math.floor((performance.now() - begun) / 1000);
    if (seconds < 2) return "Preparing the simulation …";
    return `Preparing the simulation … ${seconds} s. The first run on a machine compiles code, which takes some seconds.`;
  }

  /** Draw the page at the current step. */
  function draw() {
    const length = film.upTo(step);
    const waiting = film.growing !== null && step >= film.end ? ", waiting for the service" : "";
    stepText.textContent = length ? `Step ${count(film.steps[length - 1])} of ${count(film.most)}${waiting}` : paused ? "Not started" : preparing();
    stepText.dataset.step = length ? film.steps[length - 1] : 0;
    stepText.dataset.over = over;
    const names = [...chosen];
    const xs = [0, ...film.steps.slice(0, length)];
    const curves = names.map((name, kind) => ({ kind, xs, ys: [0, ...film.runs.get(name).regret.slice(0, length)] }));
    chart.draw({ label: regretText(), curves, end: xs.at(-1), marks: film.tastes.slice(1).map((one) => one.step) });
    if (!length) return;
    const now = film.steps[length - 1];
    const { theta, best_list: best, best: bestRate } = film.taste(now);
    const truth = service.topics.map((topic) => theta[topic] ?? 0);
    const earlier = film.upTo(Math.max(0, now - RECENT));
    for (const name of names) {
      const run = film.runs.get(name);
      const row = rows.get(name);
      const clicks = run.clicks[length - 1];
      const earlierClicks = earlier ? run.clicks[earlier - 1] : 0;
      const estimate = run.estimates[length - 1];
      row.regret.textContent = number(run.regret[length - 1], 1);
      row.rate.textContent = percent(clicks / now, 1);
      row.lately.textContent = percent((clicks - earlierClicks) / (now - (earlier ? film.steps[earlier - 1] : 0)), 1);
      row.off.textContent = estimate ? number(Math.hypot(...estimate.map((value, j) => value - truth[j]))) : "–";
      itemList(cards.get(name), run.lists[length - 1], best);
    }
    itemList(cards.get("best"), best ?? [], null);
    rows.get("best").regret.textContent = number(0, 1);
    rows.get("best").lately.textContent = bestRate === null ? "–" : percent(bestRate, 1);
    const known = names.map((name) => film.runs.get(name).estimates[length - 1]);
    const [low, high] = span(known.flatMap((one) => one ?? []), -0.25, 0.5);
    for (const [j, topic] of service.topics.entries()) {
      const parts = marks.get(topic);
      const x = (value) => along(value, low, high);
      parts.truth.setAttribute("x", x(0));
      parts.zero.setAttribute("x1", x(0));
      parts.zero.setAttribute("x2", x(0));
      parts.truth.setAttribute("width", x(truth[j]) - x(0));
      parts.value.textContent = number(truth[j]);
      const texts = [];
      for (const [kind, tick] of parts.learned.entries()) {
        tick.setAttribute("visibility", known[kind] ? "visible" : "hidden");
        if (!known[kind]) continue;
        tick.setAttribute("x1", x(known[kind][j]));
        tick.setAttribute("x2", x(known[kind][j]));
        texts.push(`${names[kind]} ${number(known[kind][j])}`);
      }
      parts.text.textContent = texts.join(", ");
    }
  }

  function itemList(element, items, best) {
    const good = new Set(best ?? []);
    const key = JSON.stringify([items, best]);
    if (element.dataset.key === key) return;
    element.dataset.key = key;
    element.replaceChildren(...items.map((item) => el("li", { class: good.has(item) ? "good" : "" }, el("bdi", {}, String(item)), good.has(item) ? el("span", { class: "unseen" }, " (in the best list)") : null)));
  }

  function tick(now) {
    frame = requestAnimationFrame(tick);
    const seconds = previousTime === null ? 0 : Math.min(0.25, (now - previousTime) / 1000);
    previousTime = now;
    if (film === null || paused || over) return;
    step = Math.min(film.end, step + seconds * SPEEDS[speed]);
    if (film.end - step < AHEAD_S * SPEEDS[speed] && film.end < film.most && film.growing === null) loadMore();
    if (step >= film.most) {
      over = true;
      updateChangeButtons();
      setPaused(false);
      announce(`The run has ended. ${regretText()}`);
    }
    if (over || now - drawnAt > REDRAW_MS) {
      drawnAt = now;
      draw();
    }
  }

  function buildChoice() {
    const boxes = service.policies.map((name) => {
      const box = el("input", { type: "checkbox", name: "policy", value: name, checked: chosen.has(name), change: () => {
        if (box.checked) chosen.add(name);
        else chosen.delete(name);
        updateBoxes();
        begin({});
      } });
      return el("label", { class: "check" }, box, el("span", {}, name));
    });
    function updateBoxes() {
      for (const { firstChild: box } of boxes) box.disabled = box.checked ? chosen.size === 1 : chosen.size === MAX_POLICIES;
    }
    updateBoxes();
    choice.append(...boxes);
  }

  for (const topic of service.topics) {
    sliders.set(topic, el("input", { type: "range", min: 0, max: 100, value: 0, name: "taste" }));
  }
  buildChoice();
  setSpeed(speed);
  setSliders(settings.theta);
  place.append(
    el("h1", {}, "Watch policies learn a hidden taste"),
    el("p", { class: "lead" }, "A policy is a method that chooses lists and learns from clicks. Here, several policies learn the taste of a simulated person. The person reads each list from the top and clicks the first item that attracts them. Whether an item attracts them is partly random. No policy is told the taste. All policies face the same random numbers, so that you can compare them."),
    el("div", { class: "row steering" }, pauseButton,
      el("label", { class: "field speed" }, el("span", {}, "Speed"), slider, speedText),
      el("button", { type: "button", click: () => begin({ theta: randomTaste(service.topics), seed: newSeed() }) }, "New person"),
      el("button", { type: "button", title: "Simulate the same person again, with new random numbers", click: () => begin({ seed: newSeed() }) }, "Same person, new run"),
      changeButton, stepText),
    error,
    el("div", { class: "columns" },
      el("section", { class: "card", "aria-label": "Regret" }, el("h2", {}, "Regret: clicks missed compared with the best list"), chart.element,
        el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results by policy" },
          el("table", { class: "figures" }, el("caption", { class: "unseen" }, "Results by policy"),
            el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Policy"), ...["Regret", "Click rate", "Recent rate", "Taste error"].map((name) => el("th", { scope: "col", class: "num" }, name)))), figures)),
        el("p", { class: "note" }, `The best list is built for the true taste, which the policies do not know. Recent rate is the click rate over about the last ${RECENT} steps. Taste error is the distance between the learned and the true taste. It is missing (–) for policies that learn about items instead of topics.`)),
      el("section", { class: "card", "aria-label": "True and learned taste" },
        el("table", { class: "taste tall" }, el("caption", {}, "True taste and learned tastes"), el("thead", {}, el("tr", {}, ...["Topic", "Taste"].map((name) => el("th", { scope: "col" }, name)), el("th", { scope: "col", class: "num" }, "True taste"))), tastes),
        el("p", { class: "note" }, el("i", { class: "sample truth" }), "true taste. Each colored mark shows what one policy has learned. Within a row, the marks are placed from top to bottom in the order of the policies in the table of results."))),
    el("h2", {}, "Current lists of the policies (bold: also in the best list)"),
    lists,
    el("div", { class: "columns" },
      el("details", { class: "card" }, el("summary", {}, "Choose the person's taste"),
        el("div", { class: "sliders" }, ...[...sliders].map(([topic, one]) => field(topic, one))),
        el("div", { class: "row" },
          el("button", { type: "button", click: () => { const theta = sliderTaste(); if (theta) begin({ theta, seed: newSeed() }); } }, "New person with this taste"), changeToSliders),
        sliderError,
        el("p", { class: "note" }, "Only the proportions count. The values are scaled so that they sum to 1.")),
      el("details", { class: "card" }, el("summary", {}, "Choose policies and list length"),
        field("Items per list, K", select(listLengths(service, settings.K), settings.K, (value) => begin({ K: Number(value) }), { name: "K" })), choice)),
  );
  begin({});
  frame = requestAnimationFrame(tick);
  return () => {
    cancelAnimationFrame(frame);
    film.stop();
  };
}
