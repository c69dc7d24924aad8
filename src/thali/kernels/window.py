"""A sliding window over each user's impressions: what comes is learned, what leaves is taken away again."""

import numpy as np

from thali.kernels.jit import kernel
from thali.kernels.learn import add, examined


@kernel
def slide(M, B, gains, clicks, rule, precision, positions, number, clock, when, kept_gains, kept_clicks):
    """Learn impression number[u] of each user and forget all but their last W = when.shape[1]; M, B as in Algorithm 1.

    clock (users,): impressions so far; when (users, W): the number of the one kept in each slot, -1 for none; number n
    is kept in slot n mod W. An impression from before the window is not learned. M and B are summed anew from what is
    kept once in W impressions, so that rounding does not pile up.
    Cost a user: O(W), and O(K·(d + s²)) for each impression that comes or goes; W times that every W impressions.
    """
    users, W = when.shape
    support = np.empty(B.shape[1], dtype=np.int64)
    for user in range(users):
        before, n = clock[user], number[user]
        now = max(before, n + 1)
        own_M, own_B, own_when, gone = M[user], B[user], when[user], now - W
        for slot in range(W):
            if 0 <= own_when[slot] < gone:
                own_when[slot] = -1
                seen = kept_clicks[user, slot]
                count = examined(seen, rule)
                add(own_M, own_B, kept_gains[user, slot], seen, count, precision, positions, -1.0, support)
        if n >= gone:
            own_when[n % W] = n
            kept_gains[user, n % W] = gains[user]
            kept_clicks[user, n % W] = clicks[user]
            count = examined(clicks[user], rule)
            add(own_M, own_B, gains[user], clicks[user], count, precision, positions, 1.0, support)
        clock[user] = now
        if now // W != before // W:
            own_M[:] = np.eye(B.shape[1])
            own_B[:] = 0.0
            for slot in range(W):
                if own_when[slot] >= 0:
                    seen = kept_clicks[user, slot]
                    count = examined(seen, rule)
                    add(own_M, own_B, kept_gains[user, slot], seen, count, precision, positions, 1.0, support)
