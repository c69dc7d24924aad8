// The frame: three views by the address's hash, the colours, the key.

import * as api from "./api.js";
import { el, field, keep, kept, lasting, say } from "./dom.js";
import { operate } from "./operate.js";
import { play } from "./play.js";
import { watch } from "./watch.js";

// What a view is called, and the least role that it needs.
const VIEWS = {
  play: { name: "Play", role: "write", open: play },
  watch: { name: "Watch", role: "write", open: watch },
  operate: { name: "Operate", role: "admin", open: operate },
};
const ROLES = ["read", "write", "admin"];
const THEMES = ["system", "light", "dark"];
const main = document.getElementById("main");
let service = null;
let close = () => {};
let opened = 0;

function colour(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.replaceChildren("◐", el("span", {}, ` ${theme}`));
  button.setAttribute("aria-label", `Theme: ${theme}`);
  button.onclick = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep(lasting, "thali.theme", next);
    colour(next);
    say(`Theme: ${next}`);
  };
}

/** Open the view of the address; move: whether to go to its heading, as after a click on its name. */
async function show(move) {
  let name = location.hash.slice(1) || "play";
  if (!Object.hasOwn(VIEWS, name)) {
    if (opened) {
      main.focus(); // the way past the header
      return;
    }
    name = "play";
  }
  const view = VIEWS[name];
  const mine = (opened += 1);
  close();
  close = () => {};
  document.title = `${view.name} · thali`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (service === null) await meet();
    if (mine !== opened) return; // another view was asked for meanwhile
    const place = el("div", { class: `view ${name}` });
    main.replaceChildren(place);
    if (ROLES.indexOf(service.role) < ROLES.indexOf(view.role)) askKey(place, view);
    else close = view.open(place, service);
  } catch (error) {
    trouble(main, error);
  }
  if (move) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
    say("");
  }
}

let early = api.early;

/** What the service is; the first answer was asked for when the page came. */
async function ask() {
  const found = await (early ?? api.about());
  early = null;
  if (found instanceof Error) throw found;
  return found;
}

/** Learn what the service is, and what the key may do. */
async function meet() {
  service = await ask();
  const button = document.getElementById("key");
  button.hidden = !service.keys || service.role === null;
  button.textContent = `Leave (${service.role})`;
  button.onclick = () => {
    api.useKey("");
    service = null;
    show(true);
  };
}

/** Instead of a view that this key does not open. */
function askKey(place, view) {
  const own = service.role === null ? "" : ` The key given is one of the role ${service.role}.`;
  const input = el("input", { type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const told = el("p", { class: "error", role: "alert" });
  const form = el(
    "form",
    {
      class: "card key",
      submit: async (event) => {
        event.preventDefault();
        const given = input.value.trim();
        const before = api.key();
        try {
          // What is not ASCII is no key, and could not even be sent.
          if (/^[\x21-\x7e]+$/.test(given)) {
            api.useKey(given);
            await meet();
            if (service.role !== null) {
              show(true);
              return;
            }
            api.useKey(before);
            await meet();
          }
          told.textContent = "This is not a key of this service.";
        } catch (error) {
          api.useKey(before);
          told.textContent = `${api.refused(error).message}.`;
        }
        input.focus();
      },
    },
    field("Key", input, "It stays in this tab, until the tab is closed or you leave."),
    el("button", { class: "main" }, "Open"),
    told,
  );
  place.append(el("h1", {}, view.name), el("p", { class: "lead" }, `This view needs a key of the role ${view.role}.${own}`), form);
}

function trouble(place, error) {
  const { message } = api.refused(error);
  const again = el("button", { class: "main", click: () => { service = null; show(true); } }, "Try again");
  place.replaceChildren(el("div", { class: "view" }, el("h1", {}, "Not now"), el("p", { role: "alert" }, `${message}.`), again));
}

colour(kept(lasting, "thali.theme") ?? "system");
window.addEventListener("hashchange", () => show(true));
api.events.addEventListener("locked", () => { // the key is not taken any more
  service = null;
  show(true);
});
show(false);
