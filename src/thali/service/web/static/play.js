// Play: the person clicks on a list, gets the next list, and sees what was learned.

import * as api from "./api.js";
import { tasteTable } from "./charts.js";
import { announce, el, field, joined, listLengths, loadValue, localStore, percent, select, sentence, storeValue, svg } from "./dom.js";
import { card, covered } from "./plate.js";

const STORED = "thali.play";
const LOADED_ROUNDS = 200;
const DRAWN_ROUNDS = 40;
const NAME = /^guest-[0-9a-f]{10}$/;
// What to tell the person if the service does not accept an answer, by status.
const LOST = {
  404: "the service no longer has this list. Here is a new one",
  409: "this list was already answered differently, perhaps in another tab. Here is a new one",
};
const newName = () => `guest-${Array.from(crypto.getRandomValues(new Uint8Array(5)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
const ignore404 = (error) => {
  if (api.requestError(error).status !== 404) throw error;
};

/** Fill the place with the view. Returns a function that closes the view. */
export function play(place, service) {
  const learners = new Map(service.learners.map((one) => [one.name, one]));
  const main = service.learners.reduce((best, one) => (one.share > best.share ? one : best));
  const me = validSettings(loadValue(localStore, STORED));
  let shown = null; // the list on the page
  let rounds = []; // the answers that were loaded or given: {impression, clicked: position or null}
  let learned = 0; // the number of lists that were learned, which may be more than the rounds that were loaded
  let lit = []; // the topics of the last click, which the table highlights
  let busy = false;
  let due = false; // whether to request another list when the current request has ended
  let closed = false;

  /** The settings from the browser's storage. Those that this service does not support are replaced by defaults. */
  function validSettings(stored) {
    const given = stored !== null && typeof stored === "object" ? stored : {};
    const learner = learners.has(given.learner) ? given.learner : main.name;
    const longest = Math.min(service.limits.K, service.items);
    return {
      user: NAME.test(given.user) ? given.user : newName(),
      learner,
      K: Number.isInteger(given.K) && given.K >= 1 && given.K <= longest ? given.K : learners.get(learner).K,
      alpha: typeof given.alpha === "number" && given.alpha >= 0 ? given.alpha : null,
      impression: typeof given.impression === "string" ? given.impression : null,
      keys: given.keys !== false,
    };
  }

  const learner = () => learners.get(me.learner);
  const kind = () => ({ diverse: learner().features === "gains", coverage: service.coverage, steady: service.steady });
  const list = el("ol", { class: "plate", "aria-label": "Recommended list" });
  const noneButton = el("button", { type: "button", class: "nothing", click: () => answer(null) }, "None of these ", el("kbd", {}, "N"));
  const undoButton = el("button", { type: "button", click: undo }, "Undo ", el("kbd", {}, "U"));
  const startAgainButton = el("button", { type: "button", click: startAgain }, "Start again");
  const score = el("p", { class: "score" });
  const path = el("div", { class: "path" });
  const error = el("p", { class: "error", role: "alert" });
  const taste = tasteTable("Your taste, as learned so far", { plate: true });
  const controls = el("div", { class: "controls" });
  const name = el("code");

  function buildControls() {
    const usual = learner().alpha;
    const base = usual || 0.8 / learner().sigma;
    const alphas = [...new Set([0, ...[1 / 8, 1 / 4, 1 / 2, 1, 2, 4].map((by) => by * base), me.alpha ?? usual])].sort((a, b) => a - b);
    const alphaText = (alpha) => `${Number(alpha.toPrecision(4))}${alpha === 0 ? " (none)" : alpha === usual ? " (default)" : ""}`;
    const change = (changes) => (value) => {
      Object.assign(me, changes(value));
      lit = [];
      buildControls();
      renew();
    };
    const names = [...learners.values()].map((one) => [one.name, one.name === one.policy ? one.policy : `${one.name} (${one.policy})`]);
    const shortcuts = el("input", { type: "checkbox", checked: me.keys, change: () => { me.keys = shortcuts.checked; save(); } });
    const focused = document.activeElement?.getAttribute("name");
    controls.replaceChildren(
      field("Policy", select(names, me.learner, change((value) => ({ learner: value, alpha: null })), { name: "policy" })),
      field("Items per list, K", select(listLengths(service, me.K), me.K, change((value) => ({ K: Number(value) })), { name: "K" })),
      field("Exploration, α", select(alphas.map((alpha) => [alpha, alphaText(alpha)]), me.alpha ?? usual, change((value) => ({ alpha: Number(value) })), { name: "alpha" })),
      el("label", { class: "check keys" }, shortcuts, el("span", {}, "Shortcut keys ", el("kbd", {}, "1"), "…, ", el("kbd", {}, "N"), " and ", el("kbd", {}, "U"))),
    );
    if (focused) controls.querySelector(`[name="${focused}"]`)?.focus();
  }

  function save() {
    name.textContent = me.user;
    storeValue(localStore, STORED, me);
  }

  /** Do some work, unless other work is under way. If a request fails, show the error and keep the list. */
  async function run(work) {
    if (busy) return;
    busy = true;
    list.setAttribute("aria-busy", "true");
    error.textContent = "";
    try {
      await work();
    } catch (failure) {
      error.textContent = sentence(api.requestError(failure).message);
      if (shown === null) list.replaceChildren(el("li", {}, el("button", { type: "button", class: "main", click: () => run(begin) }, "Try again")));
    } finally {
      busy = false;
      list.removeAttribute("aria-busy");
    }
    if (due) renew();
  }

  /** Request a list with the current settings, now or when the current request has ended. */
  function renew() {
    due = busy;
    if (busy) return;
    run(async () => {
      await next();
      announce("Here is a new list with your settings.");
    });
  }

  async function begin() {
    if (!(await resume())) await next();
  }

  async function next() {
    if (shown === null ? me.impression !== null : shown.learner !== me.learner) await loadRounds();
    const body = { user: me.user, learner: me.learner, K: me.K };
    if (me.alpha !== null) body.alpha = me.alpha;
    show(await api.recommend(body));
  }

  function show(impression) {
    if (closed) return;
    shown = impression;
    me.impression = shown.impression;
    save();
    drawList();
    drawTaste();
  }

  /** Draw the items as buttons. If an item had the focus, the first of the new items gets it. */
  function drawList() {
    const focused = list.contains(document.activeElement);
    list.replaceChildren(
      ...shown.items.map((_, index) => {
        const id = `item-${index}`;
        return el("li", {}, el("button", {
          type: "button", class: "item", click: (event) => { if (event.detail < 2) answer(index); }, // a double click counts once
          "aria-labelledby": `${id}-place ${id}-name`, "aria-describedby": `${id}-why`,
        }, card(shown.items, index, id, kind())));
      }),
    );
    if (focused) list.querySelector("button").focus();
    list.dataset.impression = shown.impression;
    performance.mark("thali-list");
  }

  /** Draw what was learned. This comes after the list, so that the person does not have to wait for it. */
  async function drawTaste() {
    const { impression } = shown;
    let user;
    try {
      user = await api.user(me.user);
    } catch (failure) {
      error.textContent = sentence(api.requestError(failure).message);
      return;
    }
    if (closed || shown.impression !== impression) return;
    const usual = learner().alpha;
    const alpha = me.alpha ?? usual;
    const known = user.learners[me.learner];
    learned = known?.updates ?? 0;
    // If nothing was learned, θ̄ = 0 and M = I. The service computes intervals with the learner's own α.
    const rows = known
      ? known.taste.map((one) => ({ ...one, half: ((one.high - one.low) / 2) * (usual ? alpha / usual : 1) }))
      : service.topics.map((topic) => ({ topic, estimate: 0, half: alpha }));
    taste.update(rows, { lit, covered: covered(shown.items, kind()) });
    drawRounds();
    taste.element.dataset.impression = impression;
  }

  function drawRounds() {
    const hits = rounds.filter((round) => round.clicked !== null).length;
    if (!rounds.length && document.activeElement === undoButton) list.querySelector("button").focus(); // the button is disabled below
    undoButton.disabled = rounds.length === 0;
    const which = learned > rounds.length ? `the last ${rounds.length} lists` : `${rounds.length} lists so far`;
    score.textContent = rounds.length
      ? `Round ${Math.max(rounds.length, learned) + 1}: you liked something in ${hits} of ${which} (${percent(hits / rounds.length)}).`
      : "Round 1.";
    const last = rounds.slice(-DRAWN_ROUNDS);
    const lowest = Math.max(me.K, ...last.map((round) => (round.clicked ?? 0) + 1));
    const y = (position) => 8 + (44 * position) / lowest;
    const marks = last.map((round, index) => {
      const x = 10 + 12 * index;
      return round.clicked === null
        ? svg("path", { class: "miss", d: `M${x - 3} ${y(lowest) - 3}l6 6m0 -6l-6 6` })
        : svg("circle", { class: "hit", cx: x, cy: y(round.clicked), r: 4 });
    });
    const positions = last.map((round) => (round.clicked === null ? "none" : round.clicked + 1)).join(", ");
    path.replaceChildren(...(last.length ? [
      el("h2", {}, "Where you clicked"),
      svg("svg", { viewBox: `0 0 ${20 + 12 * DRAWN_ROUNDS} 60`, role: "img", "aria-label": `Clicked positions, round by round: ${positions}` }, marks),
      el("p", { class: "note" }, "Each column is one round. Dots show where in the list you clicked, and × means that you liked none of the items. As thali learns, your clicks tend to move up."),
    ] : []));
  }

  /** The list no longer exists, or was answered differently in another tab. Show a new list, and say why. */
  async function recover(failure) {
    const { status } = api.requestError(failure);
    if (!Object.hasOwn(LOST, status)) throw failure;
    lit = [];
    await loadRounds();
    await next();
    throw new api.RequestError(status, { error: LOST[status] });
  }

  function answer(position) {
    if (shown === null) return;
    run(async () => {
      const items = shown.items.map((one) => String(one.item));
      await api.feedback(shown.impression, position === null ? [] : [position]).catch(recover);
      // If the next list could not be loaded, the person answers the same list again, which is still one round.
      if (rounds.at(-1)?.impression !== shown.impression) rounds.push({ impression: shown.impression, clicked: position });
      lit = position === null ? [] : Object.keys(shown.items[position].gains);
      await next();
      announce(position === null
        ? "You liked none of these. Here is a new list."
        : `You chose ${items[position]}${position ? ` and passed over ${joined(items.slice(0, position))}` : ""}. Here is a new list.`);
    });
  }

  function undo() {
    run(async () => {
      const last = rounds.at(-1);
      if (last === undefined) return;
      await api.undo(last.impression).catch(recover);
      const previous = await api.impression(last.impression);
      rounds.pop();
      lit = [];
      show(previous);
      announce("Your last answer was undone. Here is its list again.");
    });
  }

  function startAgain() {
    run(async () => {
      // Only an admin key may forget a user. Without one, the old user stays in the store.
      if (service.role === "admin") await api.forget(me.user).catch(ignore404);
      me.user = newName();
      rounds = [];
      lit = [];
      await next();
      announce("You are now a new person, about whom nothing is known yet.");
    });
  }

  async function loadRounds() {
    const page = await api.history(me.user, LOADED_ROUNDS);
    rounds = page.impressions
      .filter((one) => one.learner === me.learner && one.answer === "feedback")
      .map((one) => ({ impression: one.impression, clicked: one.clicked.length ? one.clicked[0] : null }))
      .reverse();
  }

  /** After the page was reloaded, show the same list again if it is still unanswered. */
  async function resume() {
    if (me.impression === null) return false;
    const [previous] = await Promise.all([api.impression(me.impression).catch(ignore404), loadRounds()]);
    if (previous?.user !== me.user || previous.learner !== me.learner || previous.clicked !== null) return false;
    show(previous);
    return true;
  }

  function onKey(event) {
    if (!me.keys || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea, dialog")) return;
    const letter = event.key.toLowerCase();
    if (letter === "n") answer(null);
    else if (letter === "u") undo();
    else if (/^[0-9]$/.test(letter)) {
      const position = letter === "0" ? 9 : Number(letter) - 1;
      if (shown === null || position >= shown.items.length) return;
      answer(position);
    } else return;
    event.preventDefault();
  }

  buildControls();
  place.append(
    el("h1", {}, "Click the first item you like"),
    el("p", { class: "lead" }, "Read the list from the top. thali assumes that you saw the items above your click and did not want them, and that you did not look at the items below it. It learns your taste from every click, and mixes the next list so that it has something for each of your interests."),
    el("div", { class: "columns" },
      el("section", {}, list, el("div", { class: "row answers" }, noneButton, undoButton, startAgainButton), error, score, path),
      el("section", { class: "card", "aria-label": "What thali has learned" }, taste.element,
        el("p", { class: "note" }, el("i", { class: "sample taste-bar" }), "learned taste ", el("i", { class: "sample band" }), "uncertainty (the range in which your taste may lie)"),
        el("p", { class: "note" }, "The bar of each item shows why it was chosen: ", el("i", { class: "sample belief" }), "belief (thali expects you to like it) ", el("i", { class: "sample exploration" }), "exploration (thali wants to find out whether you like it). The topics of an item fade if the items above already cover them. In the table, the topics of your last click are bold, and Covered is the share of a topic that this list covers."),
        controls,
        el("p", { class: "note" }, "A policy is a method that chooses lists and learns from clicks. Each policy learns only from its own lists. Your user name is ", name, "."))),
  );
  document.addEventListener("keydown", onKey);
  run(begin);
  return () => {
    closed = true;
    document.removeEventListener("keydown", onKey);
  };
}
