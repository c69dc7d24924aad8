"""Checks that run at every step, so they are compiled."""

from math import isfinite

from thali.kernels.jit import kernel


@kernel
def finite(array):
    """Whether no entry of array (n,) is NaN or infinite."""
    wrong = 0
    for x in array:
        wrong += not isfinite(x)
    return wrong == 0


@kernel
def first_bad_list(lists, L):
    """The first row of lists (users, K) with an item outside [0, L) or twice; -1 if there is none. O(K²) a row."""
    users, K = lists.shape
    for user in range(users):
        for k in range(K):
            item = lists[user, k]
            if item < 0 or item >= L:
                return user
            for i in range(k):
                if lists[user, i] == item:
                    return user
    return -1
