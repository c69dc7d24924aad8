// A film: a simulated person, and what each policy did, step by step.
//
// The seed determines everything, and the service stores nothing. The page therefore requests longer and longer
// simulations, and of each only the steps that it does not have yet. A change of taste starts a new part.

import * as api from "./api.js";

const FIRST = 250; // the number of steps in the first part, which contains every step
const POINTS = 125; // the number of steps that are kept of each later part

// The service runs one simulation at a time, so requests wait for each other.
let last = Promise.resolve();

function oneAtATime(send) {
  const response = last.then(send);
  last = response.catch(() => {});
  return response;
}

export class Film {
  /**
   * settings: {policies, K, seed, theta}. most: the number of steps of the whole film. points: the largest number of
   * points per part. changes: the largest number of changes of taste.
   */
  constructor(settings, { most, points, changes }) {
    Object.assign(this, { settings, most, points, changes, steps: [], tastes: [], version: 0 });
    this.runs = new Map(settings.policies.map((policy) => [policy, { regret: [], clicks: [], lists: [], estimates: [] }]));
    this.growing = null;
  }

  get end() {
    return this.steps.at(-1) ?? 0;
  }

  /** The number of points up to and including a step. */
  upTo(step) {
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle] <= step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The person's taste at a step, with its best list: {step, theta, best_list, best}. */
  taste(step) {
    return this.tastes.findLast((one) => one.step < step) ?? this.tastes[0];
  }

  /** Request the next part, unless a request is already under way. */
  grow() {
    if (this.growing === null && this.end < this.most) {
      const growing = this.#next().finally(() => {
        if (this.growing === growing) this.growing = null;
      });
      this.growing = growing;
    }
    return this.growing;
  }

  async #next() {
    const { version } = this;
    const part = await oneAtATime(() => (version === this.version ? api.simulate(this.#nextRequest()) : null));
    if (version !== this.version) return; // the film was stopped or the taste was changed, so this part is outdated
    this.tastes = [{ step: 0, theta: part.theta, best_list: part.best_list, best: part.best }, ...part.changes];
    this.steps.push(...part.steps);
    for (const added of part.runs) {
      const run = this.runs.get(added.policy);
      for (const name of ["regret", "clicks", "lists"]) run[name].push(...added[name]);
      run.estimates.push(...(added.estimates ?? []));
    }
  }

  /** The body of the request for the next part. */
  #nextRequest() {
    const { end } = this;
    const target = Math.min(this.most, end + Math.max(FIRST, end));
    const length = Math.max(1, Math.min(target - end, target <= FIRST ? FIRST : POINTS, this.points));
    const points = Array.from({ length }, (_, index) => end + Math.round(((index + 1) * (target - end)) / length));
    const changes = this.tastes.slice(1).map(({ step, theta }) => ({ step, theta }));
    return { ...this.settings, steps: target, points, since: end, changes, trace: true };
  }

  /** Send no more requests, and ignore the response to the current one. */
  stop() {
    this.version += 1;
    this.growing = null;
  }

  /** Whether the film has begun and the service accepts one more change of taste. */
  get changeable() {
    return this.end > 0 && this.tastes.length <= this.changes;
  }

  /** Change the taste after a step. The steps that follow are discarded, and requested again with the new taste. */
  change(step, theta) {
    const length = Math.max(1, this.upTo(step));
    this.stop();
    this.steps.length = length;
    for (const run of this.runs.values()) for (const part of Object.values(run)) part.length = Math.min(part.length, length);
    this.tastes = [...this.tastes.filter((one) => one.step < this.end), { step: this.end, theta, best_list: null, best: null }];
  }
}
