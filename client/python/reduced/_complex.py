"""What of complex numbers the library does not compute: products, and sums and maxima of magnitudes. Each is rounded once.

Magnitudes come as sums of two doubles. Where their error leaves open how the result is rounded, whole numbers decide."""
from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Callable, Iterator

import numpy as np

from ._client import Client
from ._elements import part_code
from .errors import TooLargeError
from ._fractions import HEAD, SPECIAL
from ._magnitudes import CLOSE, SMALL, UNIT, square
from ._nearest import DOUBLE, FORMS, nearest, nearest_ratio
from ._remote import Array
from ._sources import Source

if TYPE_CHECKING:
    from ._prepare import Prepared
    from ._results import Finish

BITS = 1 << 20  # of the exact product of one result


# ---- sums and maxima of magnitudes ----

def exact_sum(line: Array, form: tuple[int, int]) -> float:
    """The sum of magnitudes. If all roots are rational it is known; else it is irrational, and some number of digits says how it is rounded."""
    squares = [square(float(z.real), float(z.imag)) for z in line.tolist()]
    more = 64
    while True:
        total, inexact = 0, 0
        for s in squares:
            root = math.isqrt(s << 2 * more)
            total, inexact = total + root, inexact + (root * root != s << 2 * more)
        if not total:
            return 0.0
        least, most = (nearest(Fraction(n, 1 << UNIT + more), False, *form) for n in (total, total + inexact))
        if least == most:
            return least
        more *= 2


def exact_largest(line: Array, form: tuple[int, int]) -> float:
    s = max((square(float(z.real), float(z.imag)) for z in line.tolist()), default=0)
    return nearest_ratio(s, 1 << 2 * UNIT, True, *form) if s else 0.0


def sum_of(state: bytes, form: tuple[int, int]) -> float | None:
    """The sum that a state of both doubles of each magnitude has; None: its error leaves open how it is rounded."""
    if state[SPECIAL]:
        return math.inf if state[SPECIAL] == 1 else math.nan
    total, count = int.from_bytes(state[HEAD:], "little", signed=True), int.from_bytes(state[8:HEAD], "little")
    if total <= 0:
        return 0.0 if not total else None
    error = (total >> CLOSE) + (2 * count if total.bit_length() < UNIT + SMALL + count.bit_length() else 1)
    least, most = (nearest_ratio(max(n, 1), 1 << UNIT, False, *form) for n in (total - error, total + error))
    return least if least == most and total > error else None


class Magnitudes:
    """Makes norms of complex numbers: of states of both doubles of each magnitude, or of the largest first ones."""

    def __init__(self, finish: Finish, p: Prepared):
        self.finish, self.p, self.largest = finish, p, p.op == "norminf"
        self.form = DOUBLE if finish.scalar and not finish.given else FORMS.get(part_code(p.wanted), DOUBLE)

    def __call__(self, cells: Array) -> Any:
        if self.largest and self.form == DOUBLE:
            return self.finish(cells)
        found = [self.of_largest(x) for x in cells.tolist()] if self.largest else [sum_of(cell.tobytes(), self.form) for cell in cells]
        for i in (i for i, x in enumerate(found) if x is None):
            exactly = exact_largest if self.largest else exact_sum
            order = self.finish.in_axis_order(np.arange(len(found)))
            found[i] = exactly(line(self.p.magnified, self.p, int(np.flatnonzero(order.ravel() == i)[0])), self.form)
        return self.finish(np.array(found, float))

    def of_largest(self, x: float) -> float | None:
        """As a float of fewer digits; None: x lies between two of them, and does not say on which side its number was."""
        digits, least = self.form
        m, e = math.frexp(x) if math.isfinite(x) else (0.0, 0)
        return None if math.ldexp(m, min(digits, e - least) + 1) % 2 == 1 else x


# ---- lines ----

def lines(a: Array, p: Prepared) -> Iterator[Array]:
    """The elements of each result that count, in the order of the results."""
    if p.segments:
        i = p.segments.axis
        places = p.segments.places.tolist()
        others = a.shape[:i] + (p.segments.number,) + a.shape[i + 1:]
        for at in np.ndindex(*others):
            place = at[:i] + (slice(places[at[i]], places[at[i] + 1]),) + at[i + 1:]
            yield a[place] if p.counting is None else a[place][p.counting[place]]
        return
    axes = tuple(i for i in p.axes if i < a.ndim)
    kept = [i for i in range(a.ndim) if i not in axes]
    whole, keep = (None if x is None else x.transpose(*kept, *axes) for x in (a, p.counting))
    assert whole is not None
    for at in np.ndindex(*whole.shape[:len(kept)]):
        yield whole[at].reshape(-1) if keep is None else whole[at][keep[at]]


def line(a: Array, p: Prepared, number: int) -> Array:
    return next(x for i, x in enumerate(lines(a, p)) if i == number)


# ---- products ----

class Here(Source):
    """Results that this process computes when they are asked for."""

    jobs = False
    nbytes = 0

    def __init__(self, cells: Array, values: Callable[[], Iterator[Any]]):
        self.cells, self.values = cells, values

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        with np.errstate(over="ignore"):  # beyond complex64 is an infinity
            for i, x in enumerate(self.values()):
                self.cells[i] = x
        return 0

    def start(self, *_: Any) -> int:
        raise NotImplementedError


Whole = tuple[int, int, int]  # (real part, imaginary part, s): in units of 2**-s


def whole(z: complex) -> Whole:
    (a, c), (b, d) = z.real.as_integer_ratio(), z.imag.as_integer_ratio()
    below = max(c, d)
    return shortened(a * (below // c), b * (below // d), below.bit_length() - 1)


def shortened(a: int, b: int, s: int) -> Whole:
    """Without the zeros at the end of both."""
    both = a | b
    zeros = (both & -both).bit_length() - 1 if both else 0
    return a >> zeros, b >> zeros, s - zeros


def exact_product(z: Array, form: tuple[int, int]) -> complex:
    """The product of numbers, with both parts rounded once. It is not a number if one of them is not finite."""
    if not np.isfinite(z).all():
        return complex(math.nan, math.nan)
    factors = [whole(x) for x in z.tolist()] or [(1, 0, 0)]
    size = sum(max(abs(a).bit_length(), abs(b).bit_length()) for a, b, _ in factors)
    if size > BITS:
        raise TooLargeError(f"TOO_LARGE: a: the exact product of these {len(z)} complex numbers has up to {size} binary digits, and the limit is {BITS}; "
                            "multiply the products of parts, which are rounded", "a", BITS)
    while len(factors) > 1:
        pairs = zip(factors[::2], factors[1::2])
        factors = [shortened(a * c - b * d, a * d + b * c, s + t) for (a, b, s), (c, d, t) in pairs] + factors[len(factors) // 2 * 2:]
    a, b, s = factors[0]

    def rounded(n: int) -> float:
        size = nearest_ratio(abs(n) << max(-s, 0), 1 << max(s, 0), False, *form) if n else 0.0
        return -size if n < 0 else size
    return complex(rounded(a), rounded(b))


def products(p: Prepared, finish: Finish, n: int) -> tuple[Source, Array]:
    """The source of n products of complex numbers, and room for them."""
    number = finish.scalar and not finish.given
    cells = np.empty(n, "c16" if number else p.wanted)
    form = DOUBLE if number else FORMS.get(part_code(p.wanted), DOUBLE)
    return Here(cells, lambda: (exact_product(x, form) for x in lines(p.data, p))), cells
