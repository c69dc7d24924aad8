// The service's API, the same that everyone else uses.

import { keep, kept, passing } from "./dom.js";

const TRIES = 20;

/** An answer that is no answer: the service's sentence, its status, and the field it is about. */
export class Refusal extends Error {
  constructor(status, told) {
    super(told.error ?? `the service answered ${status}`);
    this.status = status;
    this.field = told.field ?? null;
  }
}

export const key = () => kept(passing, "thali.key") ?? "";
export const useKey = (text) => keep(passing, "thali.key", text || null);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Ask; while the service is busy (503) ask again, for a while where that is asked for. */
export async function ask(method, path, body, { patient = false } = {}) {
  const headers = { Accept: "application/json" };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (let left = patient ? TRIES : 1; ; left -= 1) {
    let reply;
    try {
      reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch {
      throw new Refusal(0, { error: "the service cannot be reached" });
    }
    const told = await reply.json().catch(() => ({}));
    if (reply.ok) return told;
    if (reply.status !== 503 || left <= 1) throw new Refusal(reply.status, told);
    await wait(500);
  }
}

const part = encodeURIComponent;
export const about = () => ask("GET", "v1/about");
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
