// Play: a list, a click, the next list; and what was learned.

import * as api from "./api.js";
import { tasteTable } from "./charts.js";
import { el, field, keep, kept, lasting, listed, percent, say, select, sizes, svg } from "./dom.js";
import { card, covered } from "./plate.js";

const KEPT = "thali.play";
const KNOWN_ROUNDS = 200;
const SHOWN_ROUNDS = 40;
const NAME = /^guest-[0-9a-f]{10}$/;
const newName = () => `guest-${Array.from(crypto.getRandomValues(new Uint8Array(5)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
const unless404 = (problem) => {
  if (api.refused(problem).status !== 404) throw problem;
};

/** Fill the place with the view; the answer takes it down. */
export function play(place, service) {
  const learners = new Map(service.learners.map((one) => [one.name, one]));
  const usual = service.learners.reduce((best, one) => (one.share > best.share ? one : best));
  const me = settled(kept(lasting, KEPT));
  let shown = null; // the list on the page
  let rounds = []; // what was answered so far: {impression, clicked: position or null}
  let learned = 0; // from so many lists, also those before the rounds that are known
  let lit = [];
  let busy = false;
  let due = false; // another list, once there is time
  let gone = false;

  /** What was kept, as far as this service still has it. */
  function settled(found) {
    const given = found !== null && typeof found === "object" ? found : {};
    const learner = learners.has(given.learner) ? given.learner : usual.name;
    const most = Math.min(service.limits.K, service.items);
    return {
      user: NAME.test(given.user) ? given.user : newName(),
      learner,
      K: Number.isInteger(given.K) && given.K >= 1 && given.K <= most ? given.K : learners.get(learner).K,
      alpha: typeof given.alpha === "number" && given.alpha >= 0 ? given.alpha : null,
      impression: typeof given.impression === "string" ? given.impression : null,
      keys: given.keys !== false,
    };
  }

  const learner = () => learners.get(me.learner);
  const kind = () => ({ diverse: learner().features === "gains", coverage: service.coverage });
  const list = el("ol", { class: "plate", "aria-label": "The list" });
  const none = el("button", { type: "button", class: "nothing", click: () => answer(null) }, "None of these ", el("kbd", {}, "N"));
  const back = el("button", { type: "button", click: undo }, "Undo ", el("kbd", {}, "U"));
  const again = el("button", { type: "button", click: startAgain }, "Start again");
  const score = el("p", { class: "score" });
  const path = el("div", { class: "path" });
  const error = el("p", { class: "error", role: "alert" });
  const taste = tasteTable("Your taste, as learned so far", { plate: true });
  const controls = el("div", { class: "controls" });
  const name = el("code");

  function buildControls() {
    const own = learner().alpha;
    const base = own || 0.8 / learner().sigma;
    const alphas = [...new Set([0, ...[1 / 8, 1 / 4, 1 / 2, 1, 2, 4].map((by) => by * base), me.alpha ?? own])].sort((a, b) => a - b);
    const told = (alpha) => `${Number(alpha.toPrecision(4))}${alpha === 0 ? " (none)" : alpha === own ? " (usual)" : ""}`;
    const change = (what) => (value) => {
      Object.assign(me, what(value));
      lit = [];
      buildControls();
      renew();
    };
    const names = [...learners.values()].map((one) => [one.name, one.name === one.policy ? one.policy : `${one.name} (${one.policy})`]);
    const shortcuts = el("input", { type: "checkbox", checked: me.keys, change: () => { me.keys = shortcuts.checked; save(); } });
    const focused = document.activeElement?.getAttribute("name");
    controls.replaceChildren(
      field("Policy", select(names, me.learner, change((value) => ({ learner: value, alpha: null })), { name: "policy" })),
      field("Items in a list, K", select(sizes(service, me.K), me.K, change((value) => ({ K: Number(value) })), { name: "K" })),
      field("Exploration, α", select(alphas.map((alpha) => [alpha, told(alpha)]), me.alpha ?? own, change((value) => ({ alpha: Number(value) })), { name: "alpha" })),
      el("label", { class: "check keys" }, shortcuts, el("span", {}, "Keys ", el("kbd", {}, "1"), "…, ", el("kbd", {}, "N"), " and ", el("kbd", {}, "U"))),
    );
    if (focused) controls.querySelector(`[name="${focused}"]`)?.focus();
  }

  function save() {
    name.textContent = me.user;
    keep(lasting, KEPT, me);
  }

  /** One thing at a time: an answer while another is under way is none. What is refused is said, and the list stays. */
  async function run(work) {
    if (busy) return;
    busy = true;
    list.setAttribute("aria-busy", "true");
    error.textContent = "";
    try {
      await work();
    } catch (problem) {
      error.textContent = `${api.refused(problem).message}.`;
      if (shown === null) list.replaceChildren(el("li", {}, el("button", { type: "button", class: "main", click: () => run(begin) }, "Try again")));
    } finally {
      busy = false;
      list.removeAttribute("aria-busy");
    }
    if (due) renew();
  }

  /** A list by what is chosen now; what is chosen while one is on its way is not lost. */
  function renew() {
    due = busy;
    if (busy) return;
    run(async () => {
      await next();
      say("A new list, by what you chose.");
    });
  }

  async function begin() {
    if (!(await resume())) await next();
  }

  async function next() {
    if (shown === null ? me.impression !== null : shown.learner !== me.learner) await loadRounds();
    const asked = { user: me.user, learner: me.learner, K: me.K };
    if (me.alpha !== null) asked.alpha = me.alpha;
    show(await api.recommend(asked));
  }

  function show(found) {
    if (gone) return;
    shown = found;
    me.impression = shown.impression;
    save();
    drawList();
    drawTaste();
  }

  /** The items as buttons; who was among them by keyboard is at the first of the new ones. */
  function drawList() {
    const within = list.contains(document.activeElement);
    list.replaceChildren(
      ...shown.items.map((_, at) => {
        const id = `item-${at}`;
        return el("li", {}, el("button", {
          type: "button", class: "item", click: (event) => { if (event.detail < 2) answer(at); }, // twice is once
          "aria-labelledby": `${id}-place ${id}-name`, "aria-describedby": `${id}-why`,
        }, card(shown.items, at, id, kind())));
      }),
    );
    if (within) list.querySelector("button").focus();
    list.dataset.impression = shown.impression;
    performance.mark("thali-list");
  }

  /** What is learned, after the list: nobody waits for it to answer. */
  async function drawTaste() {
    const mine = shown.impression;
    let known;
    try {
      known = await api.user(me.user);
    } catch (problem) {
      error.textContent = `${api.refused(problem).message}.`;
      return;
    }
    if (gone || shown.impression !== mine) return;
    const own = learner().alpha;
    const alpha = me.alpha ?? own;
    const found = known.learners[me.learner];
    learned = found?.updates ?? 0;
    // Nothing learned: θ̄ = 0 and M = I. The service's intervals are by the learner's own α.
    const rows = found
      ? found.taste.map((one) => ({ ...one, half: ((one.high - one.low) / 2) * (own ? alpha / own : 1) }))
      : service.topics.map((topic) => ({ topic, estimate: 0, half: alpha }));
    taste.update(rows, { lit, covered: covered(shown.items, kind()) });
    drawRounds();
    taste.element.dataset.impression = mine;
  }

  function drawRounds() {
    const hits = rounds.filter((round) => round.clicked !== null).length;
    if (!rounds.length && document.activeElement === back) list.querySelector("button").focus(); // it cannot stay there
    back.disabled = rounds.length === 0;
    const before = learned > rounds.length ? "of late" : "so far";
    score.textContent = rounds.length
      ? `Round ${Math.max(rounds.length, learned) + 1}: ${before} ${hits} of ${rounds.length} lists had something for you (${percent(hits / rounds.length)}).`
      : "Round 1.";
    const last = rounds.slice(-SHOWN_ROUNDS);
    const high = Math.max(me.K, ...last.map((round) => (round.clicked ?? 0) + 1));
    const y = (position) => 8 + (44 * position) / high;
    const marks = last.map((round, at) => {
      const x = 10 + 12 * at;
      return round.clicked === null
        ? svg("path", { class: "miss", d: `M${x - 3} ${y(high) - 3}l6 6m0 -6l-6 6` })
        : svg("circle", { class: "hit", cx: x, cy: y(round.clicked), r: 4 });
    });
    const told = last.map((round) => (round.clicked === null ? "none" : round.clicked + 1)).join(", ");
    path.replaceChildren(...(last.length ? [
      el("h2", {}, "Where you clicked"),
      svg("svg", { viewBox: `0 0 ${20 + 12 * SHOWN_ROUNDS} 60`, role: "img", "aria-label": `Positions clicked, round by round: ${told}` }, marks),
      el("p", { class: "note" }, "A column a round, the top of the list on top; × for none of these. As thali learns, clicks tend to come higher."),
    ] : []));
  }

  /** What is not there any more, or was answered otherwise (in another tab): on with what there is now, and say so. */
  async function lost(problem) {
    if (![404, 409].includes(api.refused(problem).status)) throw problem;
    lit = [];
    await loadRounds();
    await next();
    throw problem;
  }

  function answer(position) {
    if (shown === null) return;
    run(async () => {
      const items = shown.items.map((one) => String(one.item));
      await api.feedback(shown.impression, position === null ? [] : [position]).catch(lost);
      // Sent again where the next list did not come: still one round.
      if (rounds.at(-1)?.impression !== shown.impression) rounds.push({ impression: shown.impression, clicked: position });
      lit = position === null ? [] : Object.keys(shown.items[position].gains);
      await next();
      say(position === null
        ? "None of these: all were seen and passed over. A new list."
        : `${items[position]}${position ? `, and passed over ${listed(items.slice(0, position))}` : ""}. A new list.`);
    });
  }

  function undo() {
    run(async () => {
      const last = rounds.at(-1);
      if (last === undefined) return;
      await api.undo(last.impression).catch(lost);
      const before = await api.impression(last.impression);
      rounds.pop();
      lit = [];
      show(before);
      say("Taken back: the list before is here again.");
    });
  }

  function startAgain() {
    run(async () => {
      // Without the right to it they stay, as someone who never came back.
      if (service.role === "admin") await api.forget(me.user).catch(unless404);
      me.user = newName();
      rounds = [];
      lit = [];
      await next();
      say("A new person, of whom nothing is known.");
    });
  }

  async function loadRounds() {
    const page = await api.history(me.user, KNOWN_ROUNDS);
    rounds = page.impressions
      .filter((one) => one.learner === me.learner && one.answer === "feedback")
      .map((one) => ({ impression: one.impression, clicked: one.clicked.length ? one.clicked[0] : null }))
      .reverse();
  }

  /** The list that was there before the page was loaded anew, if it still waits for an answer. */
  async function resume() {
    if (me.impression === null) return false;
    const [found] = await Promise.all([api.impression(me.impression).catch(unless404), loadRounds()]);
    if (found?.user !== me.user || found.learner !== me.learner || found.clicked !== null) return false;
    show(found);
    return true;
  }

  function pressed(event) {
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
    el("h1", {}, "Click the first one you like"),
    el("p", { class: "lead" }, "Read from the top. What you pass over counts as not wanted, what stands below your click as not seen. thali learns your taste from each click, and mixes the next list so that every part of it finds something."),
    el("div", { class: "columns" },
      el("section", {}, list, el("div", { class: "row answers" }, none, back, again), error, score, path),
      el("section", { class: "card", "aria-label": "What is learned" }, taste.element,
        el("p", { class: "note" }, el("i", { class: "sample band" }), "not known yet (the interval in which the taste may lie) ", el("i", { class: "sample taste-bar" }), "learned taste"),
        el("p", { class: "note" }, "In the list: ", el("i", { class: "sample belief" }), "belief (you are thought to like it) ", el("i", { class: "sample exploration" }), "exploration (not known yet). Topics fade where the items above have them already; bold in the table are those of your last click."),
        controls,
        el("p", { class: "note" }, "You are ", name, ". Each policy learns from its own lists only."))),
  );
  document.addEventListener("keydown", pressed);
  run(begin);
  return () => {
    gone = true;
    document.removeEventListener("keydown", pressed);
  };
}
