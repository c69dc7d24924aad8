// A simulated person and what each policy did, step by step. All follows from the seed: the service keeps nothing, and
// is asked for longer and longer runs, of which it answers the part that is new. A change of taste begins a new part.

import * as api from "./api.js";

const FIRST = 250; // steps of the first part, of which every one is kept
const POINTS = 125; // of each later part

// The service simulates one at a time: whoever asks next waits for the answer before.
let last = Promise.resolve();

function inTurn(ask) {
  const mine = last.then(ask);
  last = mine.catch(() => {});
  return mine;
}

export class Film {
  /** asked: {policies, K, seed, theta}; most: steps at the end; points: at most in a part; changes: of taste at most. */
  constructor(asked, { most, points, changes }) {
    Object.assign(this, { asked, most, points, changes, steps: [], tastes: [], cut: 0 });
    this.runs = new Map(asked.policies.map((policy) => [policy, { regret: [], clicks: [], lists: [], estimates: [] }]));
    this.growing = null;
  }

  get end() {
    return this.steps.at(-1) ?? 0;
  }

  /** The number of points up to a step. */
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

  /** The taste in force at a step, with its best list: {step, theta, best_list, best}. */
  taste(step) {
    return this.tastes.findLast((one) => one.step < step) ?? this.tastes[0];
  }

  /** Ask for the next part, once at a time. */
  grow() {
    if (this.growing === null && this.end < this.most) {
      const mine = this.#next().finally(() => {
        if (this.growing === mine) this.growing = null;
      });
      this.growing = mine;
    }
    return this.growing;
  }

  async #next() {
    const { cut } = this;
    const told = await inTurn(() => (cut === this.cut ? api.simulate(this.#part()) : null));
    if (cut !== this.cut) return; // stopped, or the taste was changed meanwhile: this is not what happened
    this.tastes = [{ step: 0, theta: told.theta, best_list: told.best_list, best: told.best }, ...told.changes];
    this.steps.push(...told.steps);
    for (const run of told.runs) {
      const mine = this.runs.get(run.policy);
      for (const what of ["regret", "clicks", "lists"]) mine[what].push(...run[what]);
      mine.estimates.push(...(run.estimates ?? []));
    }
  }

  /** What to ask for next. */
  #part() {
    const { end } = this;
    const target = Math.min(this.most, end + Math.max(FIRST, end));
    const many = Math.max(1, Math.min(target - end, target <= FIRST ? FIRST : POINTS, this.points));
    const points = Array.from({ length: many }, (_, at) => end + Math.round(((at + 1) * (target - end)) / many));
    const changes = this.tastes.slice(1).map(({ step, theta }) => ({ step, theta }));
    return { ...this.asked, steps: target, points, since: end, changes, trace: true };
  }

  /** Ask for nothing more; what is under way is not waited for. */
  stop() {
    this.cut += 1;
    this.growing = null;
  }

  /** Whether there is something to change, and one more change may be asked for. */
  get changeable() {
    return this.end > 0 && this.tastes.length <= this.changes;
  }

  /** From a step on, another taste: what came after it is asked for anew. */
  change(step, theta) {
    const many = Math.max(1, this.upTo(step));
    this.stop();
    this.steps.length = many;
    for (const run of this.runs.values()) for (const part of Object.values(run)) part.length = Math.min(part.length, many);
    this.tastes = [...this.tastes.filter((one) => one.step < this.end), { step: this.end, theta, best_list: null, best: null }];
  }
}
