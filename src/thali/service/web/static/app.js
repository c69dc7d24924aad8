// The frame of the page: the view that the hash of the address selects, the color theme, and the key.

import * as api from "./api.js";
import { announce, el, field, loadValue, localStore, sentence, storeValue } from "./dom.js";
import { operate } from "./operate.js";
import { play } from "./play.js";
import { watch } from "./watch.js";

// The name of each view, the lowest role that it needs, and the function that opens it.
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

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.replaceChildren("◐", el("span", {}, ` ${theme}`));
  button.setAttribute("aria-label", `Color theme: ${theme}`);
  button.onclick = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    storeValue(localStore, "thali.theme", next);
    setTheme(next);
    announce(`Color theme: ${next}`);
  };
}

/** Open the view that the address selects. move: whether to scroll to the top and move the focus to the view. */
async function show(move) {
  let name = location.hash.slice(1) || "play";
  if (!Object.hasOwn(VIEWS, name)) {
    if (opened) {
      main.focus(); // the hash is #main, from the link that skips the header
      return;
    }
    name = "play";
  }
  const view = VIEWS[name];
  const number = (opened += 1);
  close();
  close = () => {};
  document.title = `${view.name} · thali`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (service === null) await loadService();
    if (number !== opened) return; // the person has opened another view in the meantime
    const place = el("div", { class: `view ${name}` });
    main.replaceChildren(place);
    if (ROLES.indexOf(service.role) < ROLES.indexOf(view.role)) showKeyForm(place, view);
    else close = view.open(place, service);
  } catch (error) {
    showError(main, error);
  }
  if (move) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
    announce("");
  }
}

let earlyAbout = api.earlyAbout;

/** Return the description of the service. The first one was already requested when the page loaded. */
async function about() {
  const content = await (earlyAbout ?? api.about());
  earlyAbout = null;
  if (content instanceof Error) throw content;
  return content;
}

/** Load the description of the service, which contains the role of the key. */
async function loadService() {
  service = await about();
  const button = document.getElementById("key");
  button.hidden = !service.keys || service.role === null;
  button.textContent = `Sign out (${service.role})`;
  button.onclick = () => {
    api.useKey("");
    service = null;
    show(true);
  };
}

/** Show a form for a key, because the current key does not open the view. */
function showKeyForm(place, view) {
  const needed = ROLES.slice(ROLES.indexOf(view.role)).join(" or ");
  const current = service.role === null ? "" : ` Your key has the role ${service.role}.`;
  const input = el("input", { type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const message = el("p", { class: "error", role: "alert" });
  const form = el(
    "form",
    {
      class: "card key",
      submit: async (event) => {
        event.preventDefault();
        const entered = input.value.trim();
        const previous = api.key();
        try {
          // A text that is not ASCII cannot be a key, and could not even be sent.
          if (/^[\x21-\x7e]+$/.test(entered)) {
            api.useKey(entered);
            await loadService();
            if (service.role !== null) {
              show(true);
              return;
            }
            api.useKey(previous);
            await loadService();
          }
          message.textContent = "This key is not valid for this service.";
        } catch (error) {
          api.useKey(previous);
          message.textContent = sentence(api.requestError(error).message);
        }
        input.focus();
      },
    },
    field("Key", input, "The key is kept in this tab until you close the tab or sign out."),
    el("button", { class: "main" }, "Open"),
    message,
  );
  place.append(el("h1", {}, view.name), el("p", { class: "lead" }, `This view needs a key with the role ${needed}.${current}`), form);
}

function showError(place, error) {
  const { message } = api.requestError(error);
  const retry = el("button", { class: "main", click: () => { service = null; show(true); } }, "Try again");
  place.replaceChildren(el("div", { class: "view" }, el("h1", {}, "The page cannot be shown"), el("p", { role: "alert" }, sentence(message)), retry));
}

setTheme(loadValue(localStore, "thali.theme") ?? "system");
window.addEventListener("hashchange", () => show(true));
api.events.addEventListener("locked", () => { // the service no longer accepts the key
  service = null;
  show(true);
});
show(false);
