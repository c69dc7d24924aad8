"""The mechanisms of the search engine, and the edits of its source that switch each of them off.

An edit must not change any list: a mechanism only saves time. ``mechanisms.py`` checks this in every case, and measures
how much slower thali is without the mechanism. If you delete a mechanism from the engine, delete its entry here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ENGINE = "lists/engine/"
TREES, RAYS, SEARCH, BOUNDS = (f"{ENGINE}{name}.py" for name in ("trees", "rays", "search", "bounds"))
PARTITION, INDEX, LAYOUT, GROUPS = (f"{ENGINE}{name}.py" for name in ("partition", "index", "layout", "groups"))
SCRATCH, AMONG, LANES, JIT = f"{ENGINE}scratch.py", f"{ENGINE}among.py", "tools/lanes.py", "tools/jit.py"
BATCHES = "policies/linear/batches.py"


class Edit(NamedTuple):
    """Replace a text in a file of the package. The text must occur exactly once, or at least once if ``every``."""

    file: str
    old: str
    new: str
    every: bool = False


class Mechanism(NamedTuple):
    """A mechanism, what replaces it if it is switched off, and the edits that do this.

    parts: the kinds of cases that it can affect ("lists", "candidates", "update").
    """

    name: str
    instead: str
    edits: tuple[Edit, ...]
    parts: tuple[str, ...] = ("lists",)

    def edited(self, package: Path) -> dict[str, str]:
        """Return the new text of each file that the edits change."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (package / edit.file).read_text(encoding="utf-8")
            count = text.count(edit.old)
            if count != 1 and not (edit.every and count):
                raise ValueError(
                    f"the text that an edit of mechanism {self.name!r} replaces in {edit.file} must occur once, "
                    f"got {count} times:\n{edit.old}"
                )
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts


# With these edits, a vector is an array of single floats for LLVM, and every operation is emitted once for each lane.
# Numba does not let LLVM combine them into vector operations again (the SLP vectorizer is off by default).
LANE_BY_LANE = '''
class _LaneByLane:
    """A builder that applies operations to each lane separately."""

    def __init__(self, builder):
        self.builder = builder

    def __getattr__(self, name):
        method = getattr(self.builder, name)
        if not callable(method):
            return method

        def apply(*args, **options):
            arrays = [arg for arg in args if isinstance(getattr(arg, "type", None), ir.ArrayType)]
            if not arrays or name in ("load", "store", "gep", "call", "extract_value", "insert_value", "ret"):
                return method(*args, **options)
            count = arrays[0].type.count
            lanes = []
            for n in range(count):
                each = []
                for arg in args:
                    if isinstance(getattr(arg, "type", None), ir.ArrayType):
                        arg = self.builder.extract_value(arg, n)
                    elif isinstance(arg, ir.ArrayType):
                        arg = arg.element
                    each.append(arg)
                lanes.append(method(*each, **options))
            return self.joined(lanes)

        return apply

    def joined(self, lanes):
        result = ir.Constant(ir.ArrayType(lanes[0].type, len(lanes)), ir.Undefined)
        for n, lane in enumerate(lanes):
            result = self.builder.insert_value(result, lane, n)
        return result

    def insert_element(self, vector, value, at):
        return self.builder.insert_value(vector, value, at.constant)

    def extract_element(self, vector, at):
        return self.builder.extract_value(vector, at.constant)

    def shuffle_vector(self, vector, other, mask):
        constants = mask.constant or [0] * mask.type.count
        picked = [getattr(constant, "constant", constant) for constant in constants]
        return self.joined([self.builder.extract_value(vector, n) for n in picked])

    def bitcast(self, value, kind):
        if not isinstance(value.type, ir.ArrayType):
            return self.builder.bitcast(value, kind)
        lanes = [self.builder.extract_value(value, n) for n in range(value.type.count)]
        if isinstance(kind, ir.ArrayType):
            return self.joined([self.builder.bitcast(lane, kind.element) for lane in lanes])
        bits = kind(0)
        for n, lane in enumerate(lanes):
            bits = self.builder.or_(bits, self.builder.shl(self.builder.zext(lane, kind), kind(n)))
        return bits


def intrinsic(function):
    @extending.intrinsic
    @functools.wraps(function)
    def wrapped(*args):
        signature, lower = function(*args)
        return signature, lambda context, builder, *rest: lower(context, _LaneByLane(builder), *rest)

    return wrapped
'''

ROWS_OF_CORNER_BOUNDS = """        g = lane_gains(belief.kind, weight, covering)
        store(x, U2 * a * W, g)
        store(x, U2 * a * W + W, g - lane_gains(belief.kind, positive(weight - excess), covering))
"""
LOSS_OF_CORNER_BOUNDS = """        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        square = fused(g, product, square)
        least_lost = smaller(least_lost, lost * (product * 2.0 - lost * load(y, U2 * a * W + W)))
    r, inverse = rough_roots(square - least_lost)
    half = 0.5 * belief.alpha
    factor, total, least_cost, at = inverse * half, r * half, spread(inf), gather_at
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        theta = gather(belief.theta, layout.gather_index, at)
        whole = positive(g * fused(product, factor, theta))
        part = positive((g - lost) * fused(product - lost * load(y, U2 * a * W + W), factor, theta))
        total = total + whole
        least_cost = smaller(least_cost, whole - part)
        at += W * (a + U2)
    return total * belief.rough_factor - least_cost + belief.mean_error
"""
NO_LOSS = """        square = fused(load(x, U2 * a * W), load(y, U2 * a * W), square)
    r, inverse = rough_roots(square)
    half = 0.5 * belief.alpha
    factor, total, at = inverse * half, r * half, gather_at
    for a in range(size):
        theta = gather(belief.theta, layout.gather_index, at)
        total = total + positive(load(x, U2 * a * W) * fused(load(y, U2 * a * W), factor, theta))
        at += W * (a + U2)
    return total * belief.rough_factor + belief.mean_error
"""
NEWTON = """        bits = builder.bitcast(value, _vector(WIDTH, LONG))
        halved = builder.sub(everywhere(0x5FE6EB50C7B537A9, LONG), builder.lshr(bits, everywhere(1, LONG)))
        guess = builder.bitcast(halved, VECTOR)
        half = builder.fmul(value, everywhere(-0.5))
        for _ in range(2):
            off = _call(builder, "fma", builder.fmul(half, guess), guess, everywhere(1.5))
            guess = builder.fmul(guess, off)
"""
REFRESH_OPERANDS = """@inlined
def refresh_operands(b, layout, belief, known):
    size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
    operand_at = np.uint64(layout.blocks[b, BLOCK_OPERANDS])
    for a in range(size):
        store(known.operands, operand_at + W, gather(belief.theta, layout.gather_index, gather_at))
        operand_at += U2 * W
        gather_at += W
        for _ in range(a + U1):
            store(known.operands, operand_at, gather(belief.minv_flat, layout.gather_index, gather_at))
            operand_at += W
            gather_at += W


@inlined
def visit_rays("""
SCALE_KEY = "np.where(kinds == TREE, 0.0, -np.maximum.reduceat(fading_scale[order], start[:-1]))"
SORT_MANY = "    _sort(order, start, (kinds == TREE) & (sizes > FEW_TOPICS), lambda some: _main_topics(some, items))\n"
SEARCH_RAYS = "                    if layout.blocks[b, BLOCK_KIND] == RAY:\n"
FEWEST = "FEWEST_IN_TREE = 4"
ONE, TWO, THREE, FOUR = (f"if size == U{n}:" for n in (1, 2, 3, 4))


def with_unsigned_replaced(*files: str) -> tuple[Edit, ...]:
    """Return edits that use signed integers for all array indices in these files."""
    return tuple(Edit(file, "np.uint64", "np.int64", every=True) for file in files)


MECHANISMS = (
    Mechanism("lanes", "each operation on eight numbers is emitted as eight operations", (
        Edit(LANES, "import operator\n", "import functools\nimport operator\n"),
        Edit(LANES, "intrinsic: Any = extending.intrinsic\n", LANE_BY_LANE),
        Edit(LANES, "    return ir.VectorType(element, width)\n", "    return ir.ArrayType(element, width)\n"),
        Edit(LANES, "    kind = values[0].type\n    suffix =", "    kind = values[0].type\n"
             "    if isinstance(kind, ir.ArrayType):\n"
             "        each = [[builder.extract_value(value, n) for value in values] for n in range(kind.count)]\n"
             "        return builder.joined([_call(builder, name, *lane) for lane in each])\n"
             "    suffix ="),
    ), ("lists", "update")),
    Mechanism("corners of boxes as bytes", "the same numbers, as floats of 8 bytes", (
        Edit(INDEX, "boxes=GrowingArray(boxes, np.uint8)", "boxes=GrowingArray(boxes, np.float64)"),
        Edit(GROUPS, "np.uint8(", "np.float64(", every=True),
        Edit(BOUNDS, "    load,\n    load_bytes,\n", "    load,\n"),
        Edit(BOUNDS, "\nEPSILON =", "\nload_bytes = load\nEPSILON ="),
    )),
    Mechanism("order of items with many topics: by main topics", "ordered like items with few topics", (
        Edit(INDEX, SORT_MANY, ""),
        Edit(PARTITION, "if kinds[g] != TREE or size > FEW_TOPICS:", "if kinds[g] != TREE:"),
    )),
    Mechanism("order of items in a tree: similar items together", "in the order of the catalog", (
        Edit(INDEX, SORT_MANY, ""),
        Edit(PARTITION, "if kinds[g] != TREE or size > FEW_TOPICS:", "if True:"),
    )),
    Mechanism("`lane_sums`, the O(s) bound for many topics", "the O(s²) bound", (
        Edit(TREES, "if many and belief.kind != MAX:", "if False:"),
    )),
    Mechanism("`two_values`, two blocks of items at a time", "one block at a time", (
        Edit(TREES, "if many and depth > 0 and stack_level[depth - 1] == 1 and stack_bound[depth - 1] >= floor:",
             "if False:"),
        Edit(TREES, "            if many:\n                found, other_found = two_values(",
             "            if False:\n                found, other_found = two_values("),
    )),
    Mechanism("unrolled code for rays of 1 to 4 topics", "a loop over the topics", (
        Edit(RAYS, f"    {ONE}", "    if False:"),
        Edit(RAYS, f"    el{TWO}", "    elif False:"),
        Edit(RAYS, f"    el{THREE}", "    elif False:"),
        Edit(RAYS, f"    el{FOUR}", "    elif False:"),
    )),
    Mechanism("unrolled code for rays of 3 and 4 topics", "a loop over the topics", (
        Edit(RAYS, f"    el{THREE}", "    elif False:"),
        Edit(RAYS, f"    el{FOUR}", "    elif False:"),
    )),
    Mechanism("the excess in the bound of a tree", "a bound without it", (
        Edit(BOUNDS, "    excess, at = load(layout.corners, corner_at + size * W), gather_at\n",
             "    at = gather_at\n"),
        Edit(BOUNDS, ROWS_OF_CORNER_BOUNDS, "\n".join(ROWS_OF_CORNER_BOUNDS.split("\n")[:2]) + "\n"),
        Edit(BOUNDS, "        store(y, U2 * a * W + W, variance)\n", ""),
        Edit(BOUNDS, "    square, least_lost = spread(0.0), spread(inf)\n", "    square = spread(0.0)\n"),
        Edit(BOUNDS, LOSS_OF_CORNER_BOUNDS, NO_LOSS),
    )),
    Mechanism("the O(s²) bound of a tree", "only its first O(s) bound", (
        Edit(TREES, "    upper = corner_bounds(\n        size, gather_at, np.uint64(layout.blocks[b, BLOCK_CORNERS]), "
             "layout, belief, scratch.x, scratch.y\n    )\n", "    upper = spread(inf)\n"),
    )),
    Mechanism("first bounds of groups, from bounds of topics", "every block is visited at the first position", (
        Edit(SEARCH, "        upper = upper * (1.0 + slack) + TINY * max(1.0, belief.alpha)\n",
             "        upper = spread(inf)\n"),
        Edit(SEARCH, "            upper = upper + load(layout.corners, corner_at + a * W) * gather(by_topic, "
             "layout.gather_index, gather_at)\n", ""),
    )),
    Mechanism("bounds that are valid at all later positions", "a group is visited again once a topic is shown", (
        Edit(SEARCH, "layout.seat_mask[seat], later, current)", "layout.seat_mask[seat], spread(inf), current)"),
    )),
    Mechanism("`current_bound`, valid until a topic is shown", "discarded at every position", (
        Edit(SEARCH, "            store(\n"
             "                known.current_bound, b * W, where_any(layout.seat_mask, b * W, "
             "layout.seat_mask[seat], later, current)\n            )\n",
             "            store(known.current_bound, b * W, later)\n"),
        Edit(SEARCH, "later, current = load(known.bound, b * W), load(known.current_bound, b * W)",
             "later = load(known.bound, b * W)"),
    )),
    Mechanism("`best_item`, remembered for each tree", "the tree is searched again", (
        Edit(TREES, "if known.best_item[n] == NONE or known.current_bound[n] >= known.bound[n]:", "if True:"),
    )),
    Mechanism("rays of parallel items", "parallel items form trees like others", (
        Edit(INDEX, "    if parallel:\n", "    if False:\n"),
    )),
    Mechanism("rays", "all groups are trees", (
        Edit(INDEX, "    few = ~ray & ~fan & (counts < FEWEST_IN_TREE)", "    few = ray & False"),
        Edit(INDEX, "np.select([ray | few, fan], [RAY, FAN], TREE)[np.cumsum(new_set)[start] - 1]",
             "np.full(len(start), TREE)"),
        Edit(SEARCH, SEARCH_RAYS, "                    if False:\n"),
        Edit(SEARCH, "    elif known.head[seat] != NONE and layout.slot_item[known.head[seat]] == item:",
             "    elif False:"),
    )),
    Mechanism("trees", "each item is a ray of its own, unless it is on a ray with others", (
        Edit(PARTITION, FEWEST, "FEWEST_IN_TREE = 2**60"),
        Edit(SEARCH, SEARCH_RAYS, "                    if True:\n"),
    )),
    Mechanism("boxes inside trees", "a tree is scored as a whole", (
        Edit(TREES, "            found = lane_sums(size, layout.boxes, at, unit, sum_unit, states, thetas, majorant, "
             "belief)", "            found = spread(stack_bound[depth])"),
        Edit(TREES, "            found = lane_bounds(size, topics_at, layout.topics, layout.boxes, at, unit, belief, "
             "scratch.x, scratch.y)", "            found = spread(stack_bound[depth])"),
    )),
    Mechanism("2 or 3 items with the same topics as rays", "they form a tree", (
        Edit(PARTITION, FEWEST, "FEWEST_IN_TREE = 1"),
    )),
    Mechanism("beginning at a promising block", "beginning at block 0", (
        Edit(SEARCH, "    return first_block\n", "    return U0\n"),
    )),
    Mechanism("a list of the blocks to visit", "a loop over all blocks", (
        Edit(SEARCH, "np.uint64(reaches(load(known.current_bound, b * W), best.index) & (b != first_block))",
             "np.uint64(b != first_block)"),
    )),
    Mechanism("a second look at a block's bounds before its visit", "no second look", (
        Edit(SEARCH, "if second_pass and not reaches(load(known.current_bound, b * W), best.index):", "if False:"),
    )),
    Mechanism("`rough_roots`", "exact roots and divisions", (
        Edit(LANES, NEWTON, '        guess = builder.fdiv(everywhere(1.0), _call(builder, "sqrt", value))\n'),
    )),
    Mechanism("order of rays: by scale", "in the order of their keys", (
        Edit(INDEX, SCALE_KEY, "np.zeros(len(kinds))"),
    )),
    Mechanism("the most promising box on top of the stack", "the last one on top", (
        Edit(TREES, "        if best_at >= 0:", "        if False:"),
    )),
    Mechanism("skipping eight boxes or items at once", "each of the eight is compared", (
        Edit(TREES, "            if not (reaches(found, floor) or reaches(other_found, floor)):\n"
             "                pruned = max(pruned, largest(found), largest(other_found))\n"
             "                continue\n", ""),
        Edit(TREES, "        if not reaches(found, floor):\n            pruned = max(pruned, largest(found))\n"
             "            continue\n", ""),
    )),
    Mechanism("`operands`, copied once for each user", "copied at each visit", (
        Edit(RAYS, "@inlined\ndef visit_rays(", REFRESH_OPERANDS),
        Edit(RAYS, "        make_ready(b, layout, used, belief, known)\n",
             "        make_ready(b, layout, used, belief, known)\n    else:\n"
             "        refresh_operands(b, layout, belief, known)\n"),
    )),
    Mechanism("unsigned array indices", "signed ones, which Numba compares with 0", (
        *with_unsigned_replaced(BOUNDS, RAYS, SCRATCH, SEARCH, TREES),
        Edit(LANES, "types.uint64", "types.int64", every=True),
    )),
    Mechanism("no reference counts in inlined kernels", "references are counted", (
        Edit(JIT, '"_nrt": False, ', ""),
    ), ("lists", "candidates", "update")),
    Mechanism("candidates: bounds", "each candidate whose score may have changed is scored", (
        Edit(AMONG, "                if bound[n] < best:\n", "                if bound[n] == -inf:\n"),
    ), ("candidates",)),
    Mechanism("candidates: masks of topics", "scored again at every position", (
        Edit(AMONG, "if scored_at[n] < 0 or masks[n] & shown_since[scored_at[n]]:", "if scored_at[n] < k:"),
    ), ("candidates",)),
    Mechanism("candidates: bounds and masks", "the plain loop over all candidates", (
        Edit(f"{ENGINE}__init__.py", "        among.greedy(", "        plain.greedy("),
        Edit(f"{ENGINE}__init__.py", "from thali.lists.engine import among, search, shortlist\n",
             "from thali.lists import plain\nfrom thali.lists.engine import among, search, shortlist\n"),
    ), ("candidates",)),
    Mechanism("posterior: four rows at a time", "one row at a time", (
        Edit(BATCHES, "    while t + TILE <= count:", "    while False:"),
    ), ("update",)),
    Mechanism("posterior: four users at a time", "one user at a time", (
        Edit(BATCHES, "from thali.tools.lanes import fused, load4, store\n", "from thali.tools.lanes import fused\n"),
        Edit(BATCHES, "LANES = 4\n", "LANES = 1\n"),
        Edit(BATCHES, "    return load4(array, n * LANES)\n", "    return array[n, 0]\n\n\n@inlined\n"
             "def store(array: Floats, n: int, value: Any) -> None:\n    array[n, 0] = value\n"),
    ), ("update",)),
)  # fmt: skip
