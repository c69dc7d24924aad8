// Operate: how the service does, and one user at a time.

import * as api from "./api.js";
import { hourChart, swatch, tasteTable } from "./charts.js";
import { clock, count, el, field, number, percent, say, select } from "./dom.js";
import { card } from "./plate.js";

const AGAIN_MS = 5000;
const PERIODS = [[24, "24 hours"], [24 * 7, "7 days"], [24 * 30, "30 days"]];
const HISTORY = 20;
const ms = (seconds) => (seconds === null ? "–" : `${number(1000 * seconds, 2)} ms`);

function bytes(size) {
  if (size === null) return "–";
  const power = size < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(size) / 3));
  return `${Number((size / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Hours in groups of so many, each learner's: sums, and means over lists shown. */
function together(hours, size) {
  const groups = new Map();
  for (const one of hours) {
    const hour = Math.floor(one.hour / 3600 / size) * size;
    const key = `${hour} ${one.learner}`;
    if (!groups.has(key)) groups.set(key, { hour, learner: one.learner, impressions: 0, answered: 0, clicked: 0, exploration: 0, diversity: 0 });
    const group = groups.get(key);
    for (const what of ["impressions", "answered", "clicked"]) group[what] += one[what];
    group.exploration += one.impressions * (one.exploration_share ?? 0);
    group.diversity += one.impressions * (one.diversity ?? 0);
  }
  return [...groups.values()];
}

/** A learner's lists with the hours in which it showed none. */
function quiet({ name, kind, at, values }, last, size) {
  const known = new Map(at.map((hour, k) => [hour, values[k]]));
  const every = [];
  for (let hour = at[0]; hour <= last; hour += size) every.push(hour);
  return { name, kind, at: every, values: every.map((hour) => known.get(hour) ?? 0) };
}

export function operate(place, service) {
  let hours = 24;
  let timer = 0;
  let gone = false;
  const tiles = el("dl", { class: "tiles" });
  const learners = el("tbody");
  const charts = {
    shown: hourChart("Lists shown"),
    rate: hourChart("Click rate", { share: true }),
    exploration: hourChart("Exploration share", { share: true }),
    diversity: hourChart("Diversity of lists", { share: true }),
  };
  const store = el("dl", { class: "pairs" });
  const state = el("p", { class: "state" });
  const slowest = el("tbody");
  const error = el("p", { class: "error", role: "alert" });
  const at = el("p", { class: "note" });

  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      const asked = hours;
      // Health tells of a store that fails, where there are no figures.
      const [figures, health] = await Promise.allSettled([api.stats(asked), api.health()]);
      if (gone || asked !== hours) return; // another period was asked for meanwhile
      const problems = [figures, health].filter((one) => one.status === "rejected").map((one) => api.refused(one.reason).message);
      const said = [...new Set(problems)].map((problem) => `${problem}.`).join(" ");
      if (error.textContent !== said) error.textContent = said; // the same again is not told again
      if (figures.status === "fulfilled") drawFigures(figures.value);
      drawHealth(health.status === "fulfilled" ? health.value : null);
      if (!problems.length) at.textContent = `At ${clock(Date.now() / 1000)}; again every ${AGAIN_MS / 1000} seconds.`;
    }
    timer = setTimeout(refresh, AGAIN_MS);
  }

  function drawFigures(figures) {
    const all = Object.entries(figures.learners);
    const sum = (what) => all.reduce((total, [, one]) => total + one[what], 0);
    const mean = (what) => {
      const shown = all.filter(([, one]) => one[what] !== null);
      const weight = shown.reduce((total, [, one]) => total + one.impressions, 0);
      return weight ? shown.reduce((total, [, one]) => total + one.impressions * one[what], 0) / weight : null;
    };
    const rate = sum("answered") ? percent(sum("clicked") / sum("answered"), 1) : "–";
    const share = (value) => (value === null ? "–" : percent(value, 1));
    tiles.replaceChildren(...[
      ["Users learned from, ever", count(sum("users"))], ["Lists shown", count(sum("impressions"))], ["Answered", count(sum("answered"))],
      ["Click rate", rate], ["Exploration share", share(mean("exploration_share"))], ["Diversity of lists", share(mean("diversity"))],
    ].map(([name, value]) => el("div", { class: "card" }, el("dt", {}, name), el("dd", { "data-figure": name }, value))));
    learners.replaceChildren(...all.map(([name, one], kind) => el("tr", {}, el("th", { scope: "row" }, swatch(kind % 6), name), el("td", {}, `${one.policy}, K ${one.K}, α ${Number(Number(one.alpha).toPrecision(3))}`),
      ...[count(one.users), count(one.impressions), one.click_rate ? `${percent(one.click_rate.rate, 1)} (${percent(one.click_rate.low)} to ${percent(one.click_rate.high)})` : "–", share(one.exploration_share), share(one.diversity)]
        .map((value) => el("td", { class: "num" }, value)))));
    const names = all.map(([name]) => name);
    const size = Math.ceil(hours / 30);
    const parts = together(figures.hours, size);
    const first = Math.floor(figures.since / 3600 / size) * size;
    const range = [first, Math.max(first + 1, Math.floor(Date.now() / 3600e3 / size) * size)];
    const series = (value) => names.map((name, kind) => {
      const own = parts.filter((one) => one.learner === name && value(one) !== null);
      return { name, kind: kind % 6, at: own.map((one) => one.hour), values: own.map(value) };
    }).filter((one) => one.values.length);
    charts.shown.draw(range, series((one) => one.impressions).map((one) => quiet(one, range[1], size)));
    charts.rate.draw(range, series((one) => (one.answered ? one.clicked / one.answered : null)));
    charts.exploration.draw(range, series((one) => (one.impressions ? one.exploration / one.impressions : null)));
    charts.diversity.draw(range, series((one) => (one.impressions ? one.diversity / one.impressions : null)));
  }

  function drawHealth(health) {
    state.textContent = health === null ? "Whether the store can be used is not known." : health.store.usable ? "The store can be used." : `The store cannot be used: ${health.store.error}.`;
    state.classList.toggle("bad", !health?.store.usable);
    if (health === null) return;
    store.replaceChildren(...[
      ["Store", health.store.url], ["Size", bytes(health.store.bytes)], ["A transaction now", ms(health.store.seconds)],
      ["Transactions", `${count(health.transactions)}, ${ms(health.transaction_seconds)} each`],
      ["Waiting", `${count(health.waiting)} of at most ${count(health.most_waiting)}`], ["Errors of the store", count(health.store_errors)],
      ["Tastes in memory", count(health.tastes_in_memory)], ["Process", health.process], ["Running since", new Date(1000 * health.started_at).toLocaleString("en-GB")],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    const key = JSON.stringify(health.slowest);
    if (slowest.dataset.key === key) return; // somebody may be copying an id
    slowest.dataset.key = key;
    slowest.replaceChildren(...health.slowest.slice(0, 10).map((one) => el("tr", {}, el("td", { class: "num" }, `${number(one.ms, 1)} ms`), el("td", {}, `${one.method} ${one.route}`), el("td", { class: "num" }, String(one.status)), el("td", {}, clock(one.at)), el("td", {}, el("code", {}, one.request_id)))));
  }

  // One user

  const input = el("input", { name: "user", required: true, maxlength: 256, autocomplete: "off", spellcheck: "false" });
  const found = el("div", { class: "found" });

  let asked = 0;

  async function lookUp(name) {
    const mine = (asked += 1);
    let parts;
    try {
      if (/\/|^\.{1,2}$/.test(name)) throw new api.Refusal(422, { error: "user must be a name without '/', and not '.' or '..'" });
      const [known, past] = await Promise.all([api.user(name), api.history(name, HISTORY)]);
      parts = person(known, past.impressions);
    } catch (problem) {
      parts = [el("p", { role: "alert" }, `${api.refused(problem).message}.`)];
    }
    if (mine !== asked) return; // another was asked for meanwhile
    found.replaceChildren(...parts);
    if (parts.length > 1) say(`Found ${name}.`);
  }

  function person(known, past) {
    const no = el("button", { value: "no" }, "Keep");
    const sure = el("dialog", { "aria-label": "Forget this user?" },
      el("p", {}, "Forget ", el("b", { dir: "auto" }, known.user), "? What was learned and every list is removed, for good."),
      el("form", { method: "dialog", class: "row" },
        el("button", { class: "danger", value: "yes", click: () => forget(known.user) }, "Forget"), no));
    const tastes = Object.entries(known.learners).map(([name, one]) => {
      const table = tasteTable(`Taste learned by ${name}, from ${count(one.updates)} lists`);
      table.update(one.taste.map((topic) => ({ ...topic, half: (topic.high - topic.low) / 2 })));
      return table.element;
    });
    const learned = tastes.length ? tastes : [el("p", {}, "Nothing was learned yet.")];
    return [
      el("h3", { dir: "auto" }, known.user),
      el("p", {}, `${count(known.impressions)} lists kept, ${count(known.answered)} answered, ${count(known.clicked)} of them with a click.`),
      el("div", { class: "row" }, el("button", { type: "button", class: "danger", click: () => { sure.showModal(); no.focus(); } }, "Forget this user"), sure),
      el("div", { class: "columns" },
        el("div", {}, learned),
        el("div", {}, el("h4", {}, past.length < HISTORY ? "Lists" : `The latest ${HISTORY} lists`), past.map(listOf))),
    ];
  }

  function listOf(one, order) {
    const said = one.clicked === null ? "no answer" : one.clicked.length ? `clicked ${one.clicked.map((position) => position + 1).join(", ")}` : one.answer === "time-out" ? "no answer in time: no click" : "none of these";
    const policy = service.learners.find((learner) => learner.name === one.learner);
    return el("details", { class: "past", open: order === 0 },
      el("summary", {}, `${new Date(1000 * one.shown_at).toLocaleString("en-GB")}, ${one.learner}: ${said}`),
      el("ol", { class: "plate" }, one.items.map((_, at) => el("li", { class: `item${one.clicked?.includes(at) ? " chosen" : ""}` },
        card(one.items, at, `past-${order}-${at}`, { diverse: policy?.features !== "items", coverage: service.coverage })))));
  }

  async function forget(name) {
    try {
      const was = await api.forget(name);
      const told = `Forgotten: ${was.user}, with ${count(was.impressions)} lists and what was learned from ${count(was.updates)}.`;
      found.replaceChildren(el("p", {}, told));
      say(told);
      input.focus();
      refresh();
    } catch (problem) {
      found.replaceChildren(el("p", { role: "alert" }, `${api.refused(problem).message}.`));
    }
  }

  const heads = (...names) => el("thead", {}, el("tr", {}, names.map(([name, kind]) => el("th", { scope: "col", class: kind ?? "" }, name))));
  const scroll = (label, table) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  place.append(
    el("h1", {}, "Operate"),
    el("p", { class: "lead" }, `${count(service.items)} items, ${count(service.topics.length)} topics, thali ${service.version}. `,
      service.keys ? null : "This service has no keys: whoever can reach it may do all of this."),
    el("div", { class: "row" }, field("Over", select(PERIODS, hours, (value) => { hours = Number(value); refresh(); }, { name: "hours" })), at),
    error, tiles, el("div", { class: "charts" }, Object.values(charts).map((chart) => chart.element)),
    el("section", { class: "card", "aria-label": "Learners" }, el("h2", {}, "Learners"), scroll("Learners", el("table", { class: "figures" },
      heads(["Learner"], ["Policy"], ["Users", "num"], ["Lists", "num"], ["Click rate", "num"], ["Exploration", "num"], ["Diversity", "num"]), learners))),
    el("div", { class: "columns" },
      el("section", { class: "card", "aria-label": "Store" }, el("h2", {}, "Store"), state, store),
      el("section", { class: "card", "aria-label": "Slowest requests" }, el("h2", {}, "Slowest requests"), scroll("Slowest requests", el("table", { class: "figures" },
        heads(["Took", "num"], ["Request"], ["Status", "num"], ["At"], ["Id in the log"]), slowest)))),
    el("section", { class: "card", "aria-label": "A user" }, el("h2", {}, "A user"),
      el("form", { class: "row", submit: (event) => { event.preventDefault(); lookUp(input.value); } }, field("Name", input), el("button", { class: "main" }, "Look up")), found),
  );
  refresh();
  return () => {
    gone = true;
    clearTimeout(timer);
  };
}
