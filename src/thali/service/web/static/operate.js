// Operate: the performance and health of the service, and what is known about a user.

import * as api from "./api.js";
import { hourChart, swatch, tasteTable } from "./charts.js";
import { announce, clock, count, el, field, lists, number, percent, select, sentence } from "./dom.js";
import { card } from "./plate.js";

const UPDATE_MS = 5000;
const PERIODS = [[24, "Last 24 hours"], [24 * 7, "Last 7 days"], [24 * 30, "Last 30 days"]];
const HISTORY = 20;
const ms = (seconds) => (seconds === null ? "–" : `${number(1000 * seconds, 2)} ms`);

function bytes(size) {
  if (size === null) return "–";
  const power = size < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(size) / 3));
  return `${Number((size / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Combine hours to groups of this size, for each learner: add up counts, and weight shares by the lists shown. */
function groupHours(hours, size) {
  const groups = new Map();
  for (const one of hours) {
    const hour = Math.floor(one.hour / 3600 / size) * size;
    const key = `${hour} ${one.learner}`;
    if (!groups.has(key)) groups.set(key, { hour, learner: one.learner, impressions: 0, answered: 0, clicked: 0, exploration: 0, diversity: 0 });
    const group = groups.get(key);
    for (const counter of ["impressions", "answered", "clicked"]) group[counter] += one[counter];
    group.exploration += one.impressions * (one.exploration_share ?? 0);
    group.diversity += one.impressions * (one.diversity ?? 0);
  }
  return [...groups.values()];
}

/** Add the hours in which a learner showed no lists, with value 0. */
function addEmptyHours({ name, kind, at, values }, last, size) {
  const known = new Map(at.map((hour, k) => [hour, values[k]]));
  const every = [];
  for (let hour = at[0]; hour <= last; hour += size) every.push(hour);
  return { name, kind, at: every, values: every.map((hour) => known.get(hour) ?? 0) };
}

export function operate(place, service) {
  let hours = 24;
  let timer = 0;
  let closed = false;
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
  const updated = el("p", { class: "note" });

  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      const requested = hours;
      // If the store fails, there are no stats, but health describes the error.
      const [stats, health] = await Promise.allSettled([api.stats(requested), api.health()]);
      if (closed || requested !== hours) return; // the person has left the view, or chosen another period
      const failures = [stats, health].filter((one) => one.status === "rejected").map((one) => api.requestError(one.reason).message);
      const message = [...new Set(failures)].map(sentence).join(" ");
      if (error.textContent !== message) error.textContent = message; // so that the same message is announced only once
      if (stats.status === "fulfilled") drawStats(stats.value);
      drawHealth(health.status === "fulfilled" ? health.value : null);
      if (!failures.length) updated.textContent = `Updated at ${clock(Date.now() / 1000)}. Updates every ${UPDATE_MS / 1000} seconds.`;
      if (!users.isConnected) place.append(users); // not before the first figures, which would move its button while it is pressed
    }
    timer = setTimeout(refresh, UPDATE_MS);
  }

  function drawStats(stats) {
    const all = Object.entries(stats.learners);
    const sum = (figure) => all.reduce((total, [, one]) => total + one[figure], 0);
    const mean = (figure) => {
      const shown = all.filter(([, one]) => one[figure] !== null);
      const weight = shown.reduce((total, [, one]) => total + one.impressions, 0);
      return weight ? shown.reduce((total, [, one]) => total + one.impressions * one[figure], 0) / weight : null;
    };
    const rate = sum("answered") ? percent(sum("clicked") / sum("answered"), 1) : "–";
    const share = (value) => (value === null ? "–" : percent(value, 1));
    tiles.replaceChildren(...[
      ["Users with a learned taste (all time)", count(sum("users"))], ["Lists shown", count(sum("impressions"))], ["Lists answered", count(sum("answered"))],
      ["Click rate", rate], ["Exploration share", share(mean("exploration_share"))], ["Diversity of lists", share(mean("diversity"))],
    ].map(([name, value]) => el("div", { class: "card" }, el("dt", {}, name), el("dd", { "data-figure": name }, value))));
    learners.replaceChildren(...all.map(([name, one], kind) => el("tr", {}, el("th", { scope: "row" }, swatch(kind % 6), name), el("td", {}, `${one.policy}, K = ${one.K}, α = ${typeof one.alpha === "number" ? Number(one.alpha.toPrecision(3)) : one.alpha}`),
      ...[count(one.users), count(one.impressions), one.click_rate ? `${percent(one.click_rate.rate, 1)} (${percent(one.click_rate.low)} to ${percent(one.click_rate.high)})` : "–", share(one.exploration_share), share(one.diversity)]
        .map((value) => el("td", { class: "num" }, value)))));
    const names = all.map(([name]) => name);
    const size = Math.ceil(hours / 30);
    const groups = groupHours(stats.hours, size);
    const first = Math.floor(stats.since / 3600 / size) * size;
    const range = [first, Math.max(first + 1, Math.floor(Date.now() / 3600e3 / size) * size)];
    const series = (value) => names.map((name, kind) => {
      const points = groups.filter((one) => one.learner === name && value(one) !== null);
      return { name, kind: kind % 6, at: points.map((one) => one.hour), values: points.map(value) };
    }).filter((one) => one.values.length);
    charts.shown.draw(range, series((one) => one.impressions).map((one) => addEmptyHours(one, range[1], size)));
    charts.rate.draw(range, series((one) => (one.answered ? one.clicked / one.answered : null)));
    charts.exploration.draw(range, series((one) => (one.impressions ? one.exploration / one.impressions : null)));
    charts.diversity.draw(range, series((one) => (one.impressions ? one.diversity / one.impressions : null)));
  }

  function drawHealth(health) {
    const reason = health?.store.error?.replace(/^store \S+ cannot be used: /, "");
    state.textContent = health === null ? "It is not known whether the store can be used." : health.store.usable ? "The store can be used." : `The store cannot be used: ${reason}.`;
    state.classList.toggle("bad", !health?.store.usable);
    if (health === null) return;
    store.replaceChildren(...[
      ["URL", health.store.url], ["Size", bytes(health.store.bytes)], ["Test transaction", ms(health.store.seconds)],
      ["Transactions", `${count(health.transactions)}, ${ms(health.transaction_seconds)} on average`],
      ["Requests waiting", `${count(health.waiting)} (limit ${count(health.most_waiting)})`], ["Requests failed because of the store", count(health.store_errors)],
      ["Users' tastes in memory", count(health.tastes_in_memory)], ["Process id", health.process], ["Running since", new Date(1000 * health.started_at).toLocaleString("en-GB")],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    const key = JSON.stringify(health.slowest);
    if (slowest.dataset.key === key) return; // leave the rows as they are, since the person may be selecting an id
    slowest.dataset.key = key;
    slowest.replaceChildren(...health.slowest.slice(0, 10).map((one) => el("tr", {}, el("td", { class: "num" }, `${number(one.ms, 1)} ms`), el("td", {}, `${one.method} ${one.route === "none" ? "(no API route)" : one.route}`), el("td", { class: "num" }, String(one.status)), el("td", {}, clock(one.at)), el("td", {}, el("code", {}, one.request_id)))));
  }

  // A user

  const input = el("input", { name: "user", required: true, maxlength: 256, autocomplete: "off", spellcheck: "false" });
  const result = el("div", { class: "found" });

  let lookups = 0;

  async function lookUp(name) {
    const lookup = (lookups += 1);
    let parts;
    try {
      if (/\/|^\.{1,2}$/.test(name)) throw new api.RequestError(422, { error: "user must not contain '/' and must not be '.' or '..'" });
      const [user, past] = await Promise.all([api.user(name), api.history(name, HISTORY)]);
      parts = describeUser(user, past.impressions);
    } catch (failure) {
      parts = [el("p", { role: "alert" }, sentence(api.requestError(failure).message))];
    }
    if (lookup !== lookups) return; // the person has looked up another user in the meantime
    result.replaceChildren(...parts);
    if (parts.length > 1) announce(`Found ${name}.`);
  }

  function describeUser(user, past) {
    const cancel = el("button", { value: "no" }, "Cancel");
    const dialog = el("dialog", { "aria-label": "Forget this user?" },
      el("p", {}, "Forget ", el("b", { dir: "auto" }, user.user), "? This permanently removes what was learned about this user, and all of their lists."),
      el("form", { method: "dialog", class: "row" },
        el("button", { class: "danger", value: "yes", click: () => forget(user.user) }, "Forget"), cancel));
    const tastes = Object.entries(user.learners).map(([name, one]) => {
      const table = tasteTable(`Taste learned by ${name} from ${lists(one.updates)}`);
      table.update(one.taste.map((topic) => ({ ...topic, half: (topic.high - topic.low) / 2 })));
      return table.element;
    });
    const learned = tastes.length ? tastes : [el("p", {}, "Nothing has been learned about this user yet.")];
    return [
      el("h3", { dir: "auto" }, user.user),
      el("p", {}, `${lists(user.impressions)} stored, ${count(user.answered)} answered, ${count(user.clicked)} with a click.`),
      el("div", { class: "row" }, el("button", { type: "button", class: "danger", click: () => { dialog.showModal(); cancel.focus(); } }, "Forget this user"), dialog),
      el("div", { class: "columns" },
        el("div", {}, learned),
        el("div", {}, el("h4", {}, past.length < HISTORY ? "Lists" : `The latest ${HISTORY} lists`), past.map(describeList))),
    ];
  }

  function describeList(one, order) {
    const answer = one.clicked === null ? "no answer yet" : one.clicked.length ? `clicked item ${one.clicked.map((position) => position + 1).join(", ")}` : one.answer === "time-out" ? "timed out, counted as no click" : "no click";
    const policy = service.learners.find((learner) => learner.name === one.learner);
    return el("details", { class: "past", open: order === 0 },
      el("summary", {}, `${new Date(1000 * one.shown_at).toLocaleString("en-GB")}, ${one.learner}: ${answer}`),
      el("ol", { class: "plate" }, one.items.map((_, index) => el("li", { class: `item${one.clicked?.includes(index) ? " chosen" : ""}` },
        card(one.items, index, `past-${order}-${index}`, { diverse: policy?.features !== "items", coverage: service.coverage, steady: service.steady })))));
  }

  async function forget(name) {
    try {
      const removed = await api.forget(name);
      const message = `Forgot ${removed.user}. Removed ${lists(removed.impressions)}, and what was learned from ${lists(removed.updates)}.`;
      result.replaceChildren(el("p", {}, message));
      announce(message);
      input.focus();
      refresh();
    } catch (failure) {
      result.replaceChildren(el("p", { role: "alert" }, sentence(api.requestError(failure).message)));
    }
  }

  const users = el("section", { class: "card", "aria-label": "User" }, el("h2", {}, "Look up a user"),
    el("form", { class: "row", submit: (event) => { event.preventDefault(); lookUp(input.value); } }, field("Name", input), el("button", { class: "main" }, "Look up")), result);
  const heads = (...names) => el("thead", {}, el("tr", {}, names.map(([name, kind]) => el("th", { scope: "col", class: kind ?? "" }, name))));
  const scroll = (label, table) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  place.append(
    el("h1", {}, "Operate"),
    el("p", { class: "lead" }, `${count(service.items)} items, ${count(service.topics.length)} topics, thali ${service.version}. `,
      service.keys ? null : "This service has no keys, so anyone who can reach it can see and change everything on this page."),
    el("div", { class: "row" }, field("Period", select(PERIODS, hours, (value) => { hours = Number(value); refresh(); }, { name: "hours" })), updated),
    error, tiles, el("div", { class: "charts" }, Object.values(charts).map((chart) => chart.element)),
    el("section", { class: "card", "aria-label": "Learners" }, el("h2", {}, "Learners"), scroll("Learners", el("table", { class: "figures" },
      heads(["Learner"], ["Policy"], ["Users", "num"], ["Lists", "num"], ["Click rate", "num"], ["Exploration", "num"], ["Diversity", "num"]), learners))),
    el("div", { class: "columns" },
      el("section", { class: "card", "aria-label": "Store" }, el("h2", {}, "Store"), state, store),
      el("section", { class: "card", "aria-label": "Slowest requests" }, el("h2", {}, "Slowest requests"), scroll("Slowest requests", el("table", { class: "figures" },
        heads(["Duration", "num"], ["Request"], ["Status", "num"], ["Ended at"], ["Request id in the log"]), slowest)))),
  );
  refresh();
  return () => {
    closed = true;
    clearTimeout(timer);
  };
}
