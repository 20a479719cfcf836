"""Tables and numbers as text, as reducectl(1) describes them, in exact fractions: random ones, and what reducectl must print or refuse. It shares
no code with reducectl; where the manual and it differ, one of them is wrong."""
import math
import re
from fractions import Fraction

CANDIDATES = "\t,;"
NAN = re.compile(r"[+-]?nan", re.I)
MISSING = "NA,N/A,n/a,#N/A,NaN,nan,NAN,-NaN,-nan,-NAN,NULL,null,None,<NA>".split(",")
INTEGER = re.compile(r"[+-]?(\d+|0[xX][0-9a-fA-F]+)")
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
RANGES = {"i8": (-2**7, 2**7), "u8": (0, 2**8), "i32": (-2**31, 2**31), "i64": (-2**63, 2**63), "u64": (0, 2**64)}
FLOATS = {"f32": (24, -149, 128), "f64": (53, -1074, 1024)}


class Refused(Exception):
    """reducectl must end with exit status 1."""


# ---- numbers ----
def integer(token):
    """The integer, or None; -0 is a float."""
    if not INTEGER.fullmatch(token):
        return None
    value = int(token, 16 if "x" in token.lower() else 10)
    return None if value == 0 and token[0] == "-" else value


def rounded(exact, kind):
    """The nearest number of the type, ties to even."""
    bits, least, most = FLOATS[kind]
    if exact == 0:
        return Fraction(0)
    scale = max(math.floor(math.log2(abs(exact.numerator)) - math.log2(exact.denominator)) - bits, least)
    while abs(exact) >= Fraction(2) ** (scale + bits):
        scale += 1
    while scale > least and abs(exact) < Fraction(2) ** (scale + bits - 1):
        scale -= 1
    value = round(exact / Fraction(2) ** scale) * Fraction(2) ** scale
    if abs(value) >= Fraction(2) ** most:
        raise Refused("beyond the range")
    return value


def real(token, kind="f64"):
    if token.lower().lstrip("+-") in ("inf", "infinity", "nan"):
        return float(token)
    if whole := INTEGER.fullmatch(token):
        return rounded(Fraction(int(token, 16 if "x" in token.lower() else 10)), kind)
    if DECIMAL.fullmatch(token):
        return rounded(Fraction(token), kind)
    raise Refused(f"{token} is not a number")


def elements(tokens, dtype, nan="omit", text=False):
    """The elements of the tokens, of which None is missing, and the name of their type; wide: integers that no type holds."""
    known = [t for t in tokens if t is not None]
    if dtype in RANGES:
        if len(known) < len(tokens) and nan != "omit":
            raise Refused("missing")
        values = [None if t is None else integer(t) if integer(t) is not None else 0 if INTEGER.fullmatch(t) else None for t in tokens]
        low, high = RANGES[dtype]
        for t, v in zip(tokens, values):
            if t is not None and (v is None or not low <= v < high):
                raise Refused(f"{t} is not of {dtype}")
        return values, dtype
    if dtype is None and known and all(integer(t) is not None for t in known) and (len(known) == len(tokens) or nan == "omit"):
        values = [None if t is None else integer(t) for t in tokens]
        low, high = min(v for v in values if v is not None), max(v for v in values if v is not None)
        kind = "i64" if -2**63 <= low and high < 2**63 else "u64" if 0 <= low and high < 2**64 else "wide"
        if kind == "wide" and (high >= 2**128 or low <= -2**128):
            raise Refused("more than 128 bits")
        return values, kind
    values = [None if t is None else real(t, dtype or "f64") for t in tokens]
    if dtype is None and any(INTEGER.fullmatch(t) and Fraction(int(t, 16 if "x" in t.lower() else 10)) != v for t, v in zip(tokens, values) if t is not None):
        raise Refused("an integer would be rounded")
    return values, dtype or "f64"


def is_nan(v):
    return v is None or (isinstance(v, float) and math.isnan(v))


def as_float(exact):
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def reduce(op, values, kind, nan):
    """What is printed, as a number; None: no index."""
    floats = kind in FLOATS
    if kind == "wide" and op not in ("sum", "mean", "min", "max"):
        raise Refused("wide")
    there = [(i, v) for i, v in enumerate(values) if not is_nan(v)]
    nans = len(values) - len(there)
    if nans and nan == "error":
        raise Refused("NAN")
    if op == "count_nan":
        return nans
    if op == "count":
        return len(there) if nan == "omit" else len(values)
    if op in ("argmin", "argmax", "min", "max") and not values:
        raise Refused("EMPTY")
    if nans and nan == "propagate":
        return next(i for i, v in enumerate(values) if is_nan(v)) if op.startswith("arg") else math.nan
    if op in ("argmin", "argmax", "min", "max"):
        if not there:
            raise Refused("EMPTY")
        best = (min if op.endswith("min") else max)(v for _, v in there)
        return next(i for i, v in there if v == best) if op.startswith("arg") else best
    infinite = {v for _, v in there if isinstance(v, float)}
    if op == "mean" and not there:
        return math.nan
    if infinite:
        return math.nan if len(infinite) > 1 else infinite.pop()
    total = sum((v for _, v in there), Fraction(0))
    if op == "mean":
        return as_float(Fraction(total) / len(there))
    return as_float(total) if floats else int(total)


# ---- tables ----
class Dialect:
    def __init__(self, delimiter=None, decimal=".", quote='"', comment=None, header=None, skip=0, missing=None):
        self.delimiter, self.decimal, self.quote, self.comment = delimiter, decimal, quote, comment
        self.header, self.skip, self.missing = header, skip, missing

    def options(self):
        named = {"\t": "tab", " ": "space"}
        yield from (["--delimiter", named.get(self.delimiter, self.delimiter)] if self.delimiter else [])
        yield from (["--decimal", self.decimal] if self.decimal != "." else [])
        yield from (["--quote", self.quote or "none"] if self.quote != '"' else [])
        yield from (["--comment", self.comment] if self.comment else [])
        yield from ([] if self.header is None else ["--header" if self.header else "--no-header"])
        yield from (["--skip-lines", str(self.skip)] if self.skip else [])
        yield from ([f"--missing={','.join(self.missing)}"] if self.missing is not None else [])

    def is_missing(self, text):
        return text == "" or text in (MISSING if self.missing is None else self.missing)

    def token(self, text):
        """The text of a number with a point; None: it is not a number."""
        if self.decimal != "." and "." in text:
            return None
        text = text.replace(self.decimal, ".")
        return text if INTEGER.fullmatch(text) or DECIMAL.fullmatch(text) or text.lower().lstrip("+-") in ("inf", "infinity", "nan") else None


class Torn(str):
    """A field that goes on behind its quotes."""


def split(text, dialect, delimiters):
    """The records of a text: fields with what they are without quotes and blanks."""
    at, n = 0, len(text)
    pad = "" if " " in delimiters else " "
    while at < n:
        record, ended = [], False
        if text[at] == "\n" or (dialect.comment and text[at] == dialect.comment):
            end = text.find("\n", at)
            at = n if end < 0 else end + 1
            continue
        while not ended:
            field, begin, closed = "", at, None
            while at < n and text[at] in pad:
                at += 1
            if dialect.quote and at < n and text[at] == dialect.quote:
                while True:
                    end = text.find(dialect.quote, at + 1)
                    if end < 0:
                        raise Refused("a quote that nothing closes")
                    field += text[at + 1 : end]
                    at = end + 1
                    if at < n and text[at] == dialect.quote:
                        field += dialect.quote
                        continue
                    break
                closed = len(field)
            else:
                at = begin
            while at < n and text[at] not in delimiters and text[at] != "\n":
                field += text[at]
                at += 1
            behind = "" if closed is None else field[closed:]
            record.append((Torn if (behind.strip(pad) if pad else behind) else str)(field.strip(pad) if pad else field))
            ended = at == n or text[at] == "\n"
            at += 1
        yield record


def find_delimiter(text, dialect):
    if dialect.delimiter:
        return dialect.delimiter
    may = []
    for d in CANDIDATES:
        if d == dialect.decimal:
            continue
        counts = [len(r) for _, r in zip(range(100), split(text, dialect, d))]
        if counts and counts[0] > 1:
            may.append((d, len(set(counts)) == 1))
    everywhere = [d for d, same in may if same]
    if len(may) < 2:
        return may[0][0] if may else ";" if dialect.decimal == "," else ","
    if len(everywhere) != 1:
        raise Refused("delimiter")
    return everywhere[0]


def kind(text, dialect):
    if dialect.is_missing(text):
        return "missing"
    if re.fullmatch("[0-9]+", text):
        return "whole"
    return "number" if dialect.token(text) is not None else "text"


def names_of(record):
    """Whether whole numbers look like names, and like which."""
    texts = [t for t in record if t]
    if not texts or not all(re.fullmatch("[0-9]+", t) for t in texts):
        return None
    numbers = [int(t) for t in texts]
    years = all(len(t) == 4 and 1500 <= int(t) < 2200 for t in texts) and all(a != b for a, b in zip(numbers, numbers[1:]))
    return "years" if years else "ascending" if len(numbers) > 1 and all(b == a + 1 for a, b in zip(numbers, numbers[1:])) else None


def has_header(records, dialect):
    if dialect.header is not None:
        return dialect.header
    first, below = records[0], records[1:100]
    kinds = [kind(t, dialect) for t in first]
    under = [[kind(r[i], dialect) if i < len(r) else "missing" for r in below] for i in range(len(first))]
    texts = [i for i, k in enumerate(kinds) if k == "text"]
    if not texts:
        def other(k, u):
            return (k == "whole" and "whole" not in u and "number" in u) or (k == "number" and "number" not in u and "whole" in u)
        other_form = len(first) > 1 and bool(below) and all(map(other, kinds, under))
        def names(r):
            return names_of(r) if all(kind(t, dialect) == "whole" or t == "" for t in r) else None
        if other_form or (names(first) and not (below and all(names(r) == names(first) for r in below))):
            raise Refused("header")
        return False
    if not any(k in ("whole", "number") for k in kinds):
        return True
    if any("text" not in under[i] and ("whole" in under[i] or "number" in under[i]) for i in texts):
        return True
    again = any(first[i] in [r[i] for r in below if i < len(r)] for i in texts)
    twice = any(a == b and kinds[i] in ("whole", "number") for i, (a, b) in enumerate(zip(first[1:], first), 1))
    if again or twice:
        return False
    raise Refused("header")


def column(text, dialect, name):
    """The tokens of a column, None for what is missing."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if dialect.skip > len(lines) - (lines[-1] == ""):
        raise Refused("skip")
    text = "\n".join(lines[dialect.skip :])
    delimiter = find_delimiter(text, dialect)
    some = list(split(text, dialect, delimiter))
    records = some or [[""]]
    header = has_header(records, dialect)
    first = records[0]
    number = int(name.lstrip("#")) - 1 if re.fullmatch("#?[1-9][0-9]*", name) else None
    numbered = number is not None and number < len(first)
    same = [i for i, t in enumerate(first) if t == name.removeprefix("=")] if header and not re.match("#[0-9]", name) else []
    if name.startswith("="):
        numbered = False
    if len(same) > 1 or (same and numbered and same[0] != number) or not (same or numbered):
        raise Refused("column")
    index = same[0] if same else number
    tokens = []
    for r in records[1 if header else 0 :] if some else []:
        if len(r) != len(first):
            raise Refused("fields")
        if isinstance(r[index], Torn):
            raise Refused("text behind quotes")
        if dialect.is_missing(r[index]):
            tokens.append(None)
        elif (token := dialect.token(r[index])) is None:
            raise Refused("not a number")
        else:
            tokens.append(token)
    return tokens


# ---- random ones ----
OPS = ("sum", "mean", "min", "max", "argmin", "argmax", "count", "count_nan")


def number(r, style, decimal="."):
    if style == "small":
        return str(r.randrange(-1000, 1000))
    if style == "ids":
        return str(r.randrange(2**53, 2**63))
    if style == "stamps":
        return str(1_700_000_000_000_000_000 + r.randrange(10**9))
    if style == "wide":
        return str(r.choice((1, -1)) * r.randrange(2 ** r.randrange(1, 127)))
    if style == "hex":
        return hex(r.randrange(2**40))
    if style == "years":
        return str(r.randrange(1500, 2200))
    text = r.choice((f"{r.gauss(0, 1):.17g}", f"{r.random():.3f}", f"{r.randrange(10**6)}e{r.randrange(-20, 20)}", f"-{r.randrange(99)}.{r.randrange(10**9)}", "7."))
    return text.replace(".", decimal)


STYLES = ("small", "small", "ids", "stamps", "wide", "hex", "years", "reals", "reals")


def random_text(r):
    """(bytes, options, expectation): numbers separated by white space."""
    styles = r.sample(STYLES, r.choice((1, 1, 1, 2)))
    tokens = [number(r, r.choice(styles)) for _ in range(r.choice((0, 1, 2, 10, 300)))]
    if r.random() < 0.1 and tokens:
        tokens[r.randrange(len(tokens))] = r.choice(("-0", "inf", "-inf", "nan", "nan", "NaN", "x", "1.5.5", "0x", "1e999", "+5", "0005", str(2**128), "--1"))
    dtype, nan, op = r.choice((None, None, None, "i64", "i32", "u8", "f32", "f64")), r.choice(("propagate", "omit", "error")), r.choice(OPS)
    blank = lambda: r.choice((" ", "\n", "\t", "\r\n", "  \n", "\v", "\f"))
    text = "".join(t + blank() for t in tokens).rstrip() if r.random() < 0.5 else "".join(t + blank() for t in tokens)

    def expected():
        values, kind = elements(tokens, dtype, "omit", text=True)
        return reduce(op, values, kind, nan), kind
    return (r.choice(("", "", "\ufeff")) + text).encode(), [op, "--text", "--nan", nan, *(["--dtype", dtype] if dtype else [])], expected


def random_table(r):
    """(bytes, options, column, expectation)."""
    dialect = Dialect(r.choice((None, None, ",", ";", "\t", "|", " ")), r.choice((".", ".", ",")), r.choice(('"', '"', "'", None)), r.choice((None, None, "#", "%")),
                      r.choice((None, None, True, False)), r.choice((0, 0, 0, 1, 3)), r.choice((None, None, ["-999", "-"], ["k.A."])))
    if dialect.delimiter == dialect.decimal:
        dialect.delimiter = ";"
    delimiter = dialect.delimiter or r.choice([d for d in CANDIDATES if d != dialect.decimal])
    width, height = r.choice((1, 2, 3, 5)), r.choice((0, 1, 2, 5, 40, 150))
    styles = [r.choice((*STYLES, "words", "years", "small")) for _ in range(width)]
    words = ["alpha", "beta", "gamma, x", "de;lta", "", "NA", 'five "x" it\'s', "tab\tbed"]
    gaps = r.choice((0, 0, 0.2))

    def quoted(text):
        needs = any(c in text for c in (delimiter, "\n", dialect.quote or "\n")) or (not dialect.delimiter and any(c in text for c in CANDIDATES))
        if dialect.quote and (needs or r.random() < 0.05):
            return dialect.quote + text.replace(dialect.quote, 2 * dialect.quote) + dialect.quote
        return re.sub(f"[{re.escape(delimiter)}\n]", "_", text) if needs and not dialect.quote else text

    def field(style):
        text = r.choice(words) if style == "words" else number(r, style, dialect.decimal)
        if r.random() < gaps:
            text = r.choice(["", *(MISSING if dialect.missing is None else dialect.missing)])
        text = quoted(text)
        return f" {text} " if delimiter != " " and r.random() < 0.03 else text
    names = r.choice((["n", "price", "x y", "4", "2"], ["2019", "2020", "2021", "2022", "2023"], ["1", "2", "3", "4", "5"], ["a", "b", "a", "c,d", "e"]))[:width]
    lines = [delimiter.join(quoted(t) for t in names)] if dialect.header or (dialect.header is None and r.random() < 0.7) else []
    lines += [delimiter.join(field(s) for s in styles) for _ in range(height)]
    if r.random() < 0.15 and lines:
        i = r.randrange(len(lines))
        lines[i] = r.choice((lines[i] + delimiter + "1", lines[i].rpartition(delimiter)[0] or "x", lines[i] + delimiter, '"' + lines[i], ""))
    for mark in (dialect.comment,) if dialect.comment else ():
        lines.insert(r.randrange(len(lines) + 1), f"{mark} a comment, with; marks")
    lines[:0] = [f"line {i}" for i in range(dialect.skip)]
    end = r.choice(("\n", "\n", "\r\n", "\r"))
    text = r.choice(("", "", "\ufeff")) + end.join(lines) + r.choice((end, end, ""))
    i = r.randrange(width)
    name = r.choice((f"#{i + 1}", f"{i + 1}", names[i], f"={names[i]}"))
    dtype, nan, op = r.choice((None, None, None, "i64", "f64", "f32")), r.choice(("propagate", "omit", "omit", "error")), r.choice(OPS)

    def expected():
        tokens = column(text, dialect, name)
        values, kind = elements(tokens, dtype, nan)
        return reduce(op, values, kind, nan), kind
    return text.encode(), [op, "--nan", nan, *dialect.options(), *(["--dtype", dtype] if dtype else [])], name, expected
