"""How people browse a list: what they click, how far they look, and how likely a click is.

At a position that is examined they click with probability c, and go on with probability after_click or after_pass. Each
of the three is an array (users, K), or of length 1 along either axis where it is the same for all.
"""

from thali.kernels.jit import inlined, kernel


@inlined
def at(shares, user, k):
    """The entry of this user and position; 1 along an axis: the same for all."""
    return shares[user if shares.shape[0] > 1 else 0, k if shares.shape[1] > 1 else 0]


@inlined
def look(click, after_click, after_pass, luck, user, clicks):
    """How many positions this user examines; the clicks, into clicks (users, K), which was all False.

    One uniform number u a position decides both: u < c·after_click, clicked and went on; u < c, clicked and left; of
    the rest [c, 1), the lowest share after_pass went on.
    """
    K = luck.shape[1]
    for k in range(K):
        u, c = luck[user, k], at(click, user, k)
        if u < c:
            clicks[user, k] = True
            on = u < c * at(after_click, user, k)
        else:
            q = at(after_pass, user, k)
            on = q == 1.0 or u < c + (1.0 - c) * q
        if not on:
            return k + 1
    return K


@inlined
def missed(click, after_pass, user, K):
    """Probability that this user clicks nothing: that they see the whole list, or leave before its end, without."""
    looking, left = 1.0, 0.0
    for k in range(K):
        looking *= 1.0 - at(click, user, k)
        q = at(after_pass, user, k)
        left += looking * (1.0 - q)
        looking *= q
    return looking + left


@kernel
def walk(click, after_click, after_pass, luck, clicks, depth):
    """Clicks into clicks (users, K), and how many positions were examined into depth (users,). Cost: O(K) a user."""
    for user in range(depth.size):
        depth[user] = look(click, after_click, after_pass, luck, user, clicks)


@kernel
def chance(click, after_pass, K, value):
    """Probability of at least one click into value (users,). Cost: O(K) a user.

    Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i, as 1 less that of none: to the bit 1 - Π_k (1-c_k) where after_pass is 1.
    """
    for user in range(value.size):
        value[user] = 1.0 - missed(click, after_pass, user, K)


@kernel
def outcome(click, after_click, after_pass, luck, clicks, value):
    """Clicks of :func:`walk` and probability of :func:`chance`, in one call."""
    users, K = luck.shape
    for user in range(users):
        look(click, after_click, after_pass, luck, user, clicks)
        value[user] = 1.0 - missed(click, after_pass, user, K)
