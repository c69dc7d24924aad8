"""Lists from a number for each item, and the bandits that learn item by item or position by position."""

from math import exp, log, sqrt

import numpy as np

from thali.kernels.jit import inlined, kernel
from thali.kernels.klucb import kl_bound
from thali.kernels.learn import examined


@inlined
def bounds_of(user, start, everything):
    """The range of what a user may be shown, among items (or among all, where start is None)."""
    if start is None:
        return np.int64(0), np.int64(everything)
    own = user if start.size > 2 else 0
    return np.int64(start[own]), np.int64(start[own + 1])


@inlined
def insert(item, value, size, top, out):
    """Put an item into the descending list out of the size largest so far, ties after those that came before."""
    K = out.size
    if size == K and value <= top[K - 1]:
        return size
    at = min(size, K - 1)
    while at > 0 and top[at - 1] < value:
        top[at] = top[at - 1]
        out[at] = out[at - 1]
        at -= 1
    top[at] = value
    out[at] = item
    return min(size + 1, K)


@kernel
def top_lists(values, out, items=None, start=None):
    """The K items of largest value (users, L), in descending order, ties to the lowest item; into out (users, K).

    items, start: what each user may choose from, as for :func:`thali.kernels.klucb.kl_lists`. Cost: O(L) a user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = bounds_of(user, start, values.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
            size = insert(item, values[user, item], size, top, out[user])


@kernel
def ucb_lists(shown, clicked, updates, scale, cap, out, items=None, start=None):
    """The K items of largest min(ŵ + sqrt(scale·log(t)/T), cap), t = updates; an item never examined comes first.

    items, start: as above. Cost: O(L) a user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        budget = scale * log(max(1.0, np.float64(updates[user])))
        begin, end = bounds_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
            T = shown[user, item]
            value = np.inf if T == 0 else clicked[user, item] / T + sqrt(budget / T)
            size = insert(item, min(value, cap), size, top, out[user])
            if size == K and top[K - 1] >= cap:
                break  # nobody can come before those


@kernel
def pie_lists(shown, clicked, updates, luck, place, out, items=None, start=None):
    """PIE: the leaders, the K items of largest ŵ; now and then one that may be better is put in at a place.

    The candidates are items outside the leaders with T·kl(ŵ_e, ŵ_K) ≤ f(t) = log t + 4·log max(1, log t), t = updates +
    1: those whose index is at least the ŵ_K of the last leader. If there are any and luck[u, 0] < 1/2, candidate number
    ⌊luck[u, 1]·their number⌋ takes the place, and the last leader goes. Cost: O(L) a user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = bounds_of(user, start, shown.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
            size = insert(item, clicked[user, item] / max(1, shown[user, item]), size, top, out[user])
        if luck[user, 0] >= 0.5:
            continue
        log_t = log(updates[user] + 1.0)
        budget, worst = log_t + 4.0 * log(max(1.0, log_t)), top[K - 1]
        count, wanted = 0, -1
        for look in range(2):  # to count the candidates, then to find the one drawn
            if look == 1:
                wanted = min(np.int64(luck[user, 1] * count), count - 1)
                count = 0
            for position in range(begin, end):
                item = position if items is None else items[position]
                if kl_bound(shown[user, item], clicked[user, item], worst) <= budget and not holds(out[user], item):
                    if count == wanted:
                        out[user, place + 1 :] = out[user, place:-1].copy()
                        out[user, place] = item
                        break
                    count += 1
            if count == 0:
                break


@inlined
def holds(row, item):
    """Whether an item is in a list."""
    for k in range(row.size):
        if row[k] == item:
            return True
    return False


@kernel
def first_free(tops, out):
    """Position by position, the first item of its own ranking tops (users, K, K) not in the list yet; into out."""
    users, K = out.shape
    for user in range(users):
        out[user] = -1
        for k in range(K):
            for rank in range(K):
                if not holds(out[user], tops[user, k, rank]):
                    out[user, k] = tops[user, k, rank]
                    break


@kernel
def count_positions(shown, clicked, lists, clicks, rule):
    """Adds one showing of each item at its position, and one reward where it was clicked; (users, K, L).

    By the rule, only the first click is a reward, or any is. O(K) a user.
    """
    users, K = lists.shape
    for user in range(users):
        last = examined(clicks[user], rule)
        for k in range(K):
            shown[user, k, lists[user, k]] += 1
            if k < last and clicks[user, k]:
                clicked[user, k, lists[user, k]] += 1


@inlined
def exp3_sums(score, gamma, shut):
    """(n, m, Σ) over the n open items: m the largest score, Σ the sum of exp(γ·(score - m)/n). Most scores are 0."""
    n, most = 0, 0.0
    for e in range(score.size):
        if not shut[e]:
            n += 1
            most = max(most, score[e])
    total, rate = 0.0, gamma / n
    nothing = exp(-rate * most)
    for e in range(score.size):
        if not shut[e]:
            total += nothing if score[e] == 0.0 else exp(rate * (score[e] - most))
    return n, most, total


@kernel
def exp3_lists(score, gamma, luck, shut, out):
    """Position by position, an item drawn with Exp3's probabilities among those open and not in the list yet.

    p_e = (1-γ)·exp(γ·score_e/n)/Σ + γ/n over the n items left; score (users, K, L), luck (users, K) uniform numbers,
    shut (users or 1, L) is restored. Cost: O(K·L) a user.
    """
    users, K, L = score.shape
    for user in range(users):
        closed = shut[user % shut.shape[0]]
        for k in range(K):
            n, most, total = exp3_sums(score[user, k], gamma, closed)
            rate = gamma / n
            nothing = exp(-rate * most)
            left, chosen = luck[user, k], -1
            for e in range(L):
                if closed[e]:
                    continue
                chosen = e
                weight = nothing if score[user, k, e] == 0.0 else exp(rate * (score[user, k, e] - most))
                left -= (1.0 - gamma) * weight / total + gamma / n
                if left < 0.0:
                    break
            out[user, k] = chosen
            closed[chosen] = True
        for k in range(K):
            closed[out[user, k]] = False


@kernel
def exp3_learn(score, gamma, lists, clicks, rule, gone):
    """Score += 1/p for every reward (by the rule, the first click or any), p as in exp3_lists with the list above it.

    gone (L,): items no longer there. Cost: O(L) a user and reward.
    """
    shut = gone.copy()
    for user in range(lists.shape[0]):
        rewarded = examined(clicks[user], rule)
        for k in range(rewarded):
            e = lists[user, k]
            if clicks[user, k]:
                shut[e] = False  # it was shown, though it may be gone by now
                n, most, total = exp3_sums(score[user, k], gamma, shut)
                p = (1.0 - gamma) * exp(gamma / n * (score[user, k, e] - most)) / total + gamma / n
                score[user, k, e] += 1.0 / p
            shut[e] = True
        for k in range(rewarded):
            shut[lists[user, k]] = gone[lists[user, k]]
