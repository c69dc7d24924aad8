"""A sliding window over each user's impressions: sums over what is in it, with nothing ever taken away."""

import numpy as np

from thali.kernels.jit import kernel
from thali.kernels.learn import add, examined


@kernel
def slide(M, B, gains, clicks, rule, precision, positions, number, clock, when, kept_gains, kept_clicks, block, sums):
    """Learn impression number[u] of each user; M and B as in Algorithm 1 over their last W = when.shape[1] impressions.

    clock (users,): impressions so far; when (users, W): the number of the one kept in each slot, -1 for none; number n
    is kept in slot n mod W. An impression from before the window is not learned. Subtracting what leaves would leave
    its rounding behind, so M and B are summed anew: from sums (users, C, d + 1, d) over blocks of about √W numbers in a
    row, M's part and in the last row B's, block (users, C) saying which; and from the impressions of the one block that
    is not in the window as a whole.
    Cost a user: O(C·d²) and O(K·(d + s²)) for each impression of that block; with C about √W, far less than all W.
    """
    users, W = when.shape
    C, d = block.shape[1], B.shape[1]
    size = block_size(W)
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        n, own_M, own_B, own_sums = number[user], M[user], B[user], sums[user]
        now = max(clock[user], n + 1)
        clock[user] = now
        first = max(0, now - W)  # the oldest number in the window
        if n >= first:
            when[user, n % W] = n
            kept_gains[user, n % W] = gains[user]
            kept_clicks[user, n % W] = clicks[user]
            slot = (n // size) % C
            if block[user, slot] != n // size:
                block[user, slot] = n // size
                own_sums[slot] = 0.0
            count = examined(clicks[user], rule)
            part_M, part_B = own_sums[slot, :d], own_sums[slot, d]
            add(part_M, part_B, gains[user], clicks[user], count, precision, positions, 1.0, support)
        own_M[:] = np.eye(d)
        own_B[:] = 0.0
        whole = (first + size - 1) // size  # the first block that lies in the window
        for old in range(first, whole * size):
            if when[user, old % W] == old:
                seen = kept_clicks[user, old % W]
                count = examined(seen, rule)
                add(own_M, own_B, kept_gains[user, old % W], seen, count, precision, positions, 1.0, support)
        for q in range(whole, (now - 1) // size + 1):
            if block[user, q % C] == q:
                for i in range(d):
                    own_B[i] += own_sums[q % C, d, i]
                    for j in range(d):
                        own_M[i, j] += own_sums[q % C, i, j]


@kernel
def block_size(W):
    """How many impressions a block holds: about √W."""
    return max(1, int(np.sqrt(W)))
