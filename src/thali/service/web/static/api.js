// Requests to the service's API, which is the same for all clients.

import { loadValue, sessionStore, storeValue } from "./dom.js";

const TIMEOUT_MS = 30_000;
// A simulation may have to wait for another one, and for its code to be compiled.
const LONG_TIMEOUT_MS = 310_000;
const RETRY_MS = 500;

/** Dispatches "locked" if the service does not accept the key, or no longer accepts it. */
export const events = new EventTarget();

/** A request that failed. Its message is the service's sentence. Its status is 0 if there was no response. */
export class RequestError extends Error {
  constructor(status, body) {
    super(body.error ?? `the service returned status ${status}`);
    this.status = status;
  }
}

/** Return the error if it is a RequestError, which the page can show. Any other error is a bug, and is thrown again. */
export function requestError(error) {
  if (!(error instanceof RequestError)) throw error;
  return error;
}

export const key = () => loadValue(sessionStore, "thali.key") ?? "";
export const useKey = (text) => storeValue(sessionStore, "thali.key", text || null);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Send a request and return the response. patient: while the service is busy (503), try again for a long time. */
async function request(method, path, body, { patient = false } = {}) {
  const until = Date.now() + (patient ? LONG_TIMEOUT_MS : TIMEOUT_MS);
  const headers = { Accept: "application/json" };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (;;) {
    let response;
    let content;
    try {
      const signal = AbortSignal.timeout(Math.max(1, until - Date.now()));
      response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
      content = await response.json();
    } catch (error) {
      const reason = error.name === "TimeoutError" ? "the service does not respond" : "the service cannot be reached";
      throw new RequestError(0, { error: reason });
    }
    if (response.ok) return content;
    if (response.status === 401 || response.status === 403) events.dispatchEvent(new Event("locked"));
    if (response.status !== 503 || !patient || Date.now() + RETRY_MS > until) throw new RequestError(response.status, content);
    await wait(RETRY_MS);
  }
}

const part = encodeURIComponent;
export const about = () => request("GET", "v1/about");
/** Requested as soon as the page loads. Use it only once. It resolves to an error instead of being rejected. */
export const earlyAbout = about().catch((error) => error);
export const recommend = (body) => request("POST", "v1/recommend", body);
export const feedback = (impression, clicked) => request("POST", "v1/feedback", { impression, clicked });
export const undo = (impression) => request("DELETE", `v1/impressions/${part(impression)}/feedback`);
export const impression = (id) => request("GET", `v1/impressions/${part(id)}`);
export const user = (name) => request("GET", `v1/users/${part(name)}`);
export const history = (name, limit) => request("GET", `v1/users/${part(name)}/impressions?limit=${limit}`);
export const forget = (name) => request("DELETE", `v1/users/${part(name)}`);
export const stats = (hours) => request("GET", `v1/stats?hours=${hours}`);
export const health = () => request("GET", "v1/health");
export const simulate = (body) => request("POST", "v1/simulations", body, { patient: true });
