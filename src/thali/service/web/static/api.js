// The service's API, the same that everyone else uses.

import { keep, kept, passing } from "./dom.js";

const PATIENCE_MS = 30_000;
// A simulation may have to wait for another, and what it needs may have to be compiled first.
const LONG_PATIENCE_MS = 310_000;
const AGAIN_MS = 500;

/** Says "locked" where the service does not take the key (any more). */
export const events = new EventTarget();

/** An answer that is no answer: the service's sentence, and its status. */
export class Refusal extends Error {
  constructor(status, told) {
    super(told.error ?? `the service answered ${status}`);
    this.status = status;
  }
}

/** The same problem if it is a refusal, of which the page can tell; else it is a mistake of ours. */
export function refused(problem) {
  if (!(problem instanceof Refusal)) throw problem;
  return problem;
}

export const key = () => kept(passing, "thali.key") ?? "";
export const useKey = (text) => keep(passing, "thali.key", text || null);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Ask; while the service is busy (503), ask again, where there is patience for it. */
async function ask(method, path, body, { patient = false } = {}) {
  const until = Date.now() + (patient ? LONG_PATIENCE_MS : PATIENCE_MS);
  const headers = { Accept: "application/json" };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (;;) {
    let reply;
    let told;
    try {
      const signal = AbortSignal.timeout(Math.max(1, until - Date.now()));
      reply = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
      told = await reply.json();
    } catch (problem) {
      const why = problem.name === "TimeoutError" ? "the service does not answer" : "the service cannot be reached";
      throw new Refusal(0, { error: why });
    }
    if (reply.ok) return told;
    if (reply.status === 401 || reply.status === 403) events.dispatchEvent(new Event("locked"));
    if (reply.status !== 503 || !patient || Date.now() + AGAIN_MS > until) throw new Refusal(reply.status, told);
    await wait(AGAIN_MS);
  }
}

const part = encodeURIComponent;
export const about = () => ask("GET", "v1/about");
/** Asked as soon as the page is there; to be used once. */
export const early = about().catch((problem) => problem);
export const recommend = (asked) => ask("POST", "v1/recommend", asked);
export const feedback = (impression, clicked) => ask("POST", "v1/feedback", { impression, clicked });
export const undo = (impression) => ask("DELETE", `v1/impressions/${part(impression)}/feedback`);
export const impression = (id) => ask("GET", `v1/impressions/${part(id)}`);
export const user = (name) => ask("GET", `v1/users/${part(name)}`);
export const history = (name, limit) => ask("GET", `v1/users/${part(name)}/impressions?limit=${limit}`);
export const forget = (name) => ask("DELETE", `v1/users/${part(name)}`);
export const stats = (hours) => ask("GET", `v1/stats?hours=${hours}`);
export const health = () => ask("GET", "v1/health");
export const simulate = (asked) => ask("POST", "v1/simulations", asked, { patient: true });
