"""The DuckDB extension beside Python's integers and fractions: `make test-duckdb`. DUCKDB_EXTENSION names the file."""
import math
import os
import random
import re
import subprocess
import sys
from fractions import Fraction

import duckdb
import numpy as np
import pytest

GROUPS = 37


@pytest.fixture(scope="module")
def db():
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"load '{os.environ['DUCKDB_EXTENSION']}'")
    return connection


def nearest(value):
    """A fraction as a double, rounded once, ties to even."""
    return value.numerator / value.denominator


def numbers(kind, n):
    draw = random.Random(f"{kind} {n}")
    usual = [draw.gauss(0, 1) for _ in range(n)]
    if kind == "wide":
        return [math.ldexp(x, draw.randint(-1000, 900)) for x in usual]
    if kind == "cancelling":
        return [y for x in usual for y in (x * 1e300, x, -x * 1e300)][:n]
    if kind == "nulls":
        return [x if draw.random() < 0.7 else None for x in usual]
    return usual


@pytest.fixture(params=["usual", "wide", "cancelling", "nulls"])
def table(db, request):
    """(connection, rows): a table t of x and g; rows by group."""
    x = numbers(request.param, 20_000)
    g = [random.Random(7).randint(0, GROUPS - 1) if i % 5 else i % 3 for i in range(len(x))]
    db.execute("create or replace table t (x double, g integer)")
    values = np.array([0.0 if v is None else v for v in x])
    missing, keys = np.array([v is None for v in x]), np.array(g, np.int32)
    db.register("columns", {"v": values, "k": keys, "m": missing})
    db.execute("insert into t select case when m then null else v end, k from columns")
    groups = {}
    for value, key in zip(x, g):
        groups.setdefault(key, []).extend([] if value is None else [Fraction(value)])
    return db, groups


def moments(values, ddof):
    n, s1, s2 = len(values), sum(values), sum(v * v for v in values)
    return (n * s2 - s1 * s1) / (n * (n - ddof))


def test_groups(table):
    db, groups = table
    got = db.execute("select g, exact_sum(x), exact_avg(x), exact_var(x), exact_var_pop(x) from t group by g").fetchall()
    assert {row[0] for row in got} == set(groups)
    for key, total, mean, var, var_pop in got:
        values = groups[key]
        assert total == nearest(sum(values)) and mean == nearest(sum(values) / len(values))
        for value, ddof in (var, 1), (var_pop, 0):
            wanted = moments(values, ddof)
            assert value == (math.inf if wanted > Fraction(2) ** 1024 else nearest(wanted))


def test_whole(table):
    db, groups = table
    values = [v for group in groups.values() for v in group]
    assert db.execute("select exact_sum(x), exact_avg(x) from t").fetchone() == (nearest(sum(values)), nearest(sum(values) / len(values)))


def test_any_order_and_number_of_threads(table):
    db, _ = table
    answers = set()
    for order in "x", "-x", "hash(x)":
        for threads in 1, 2, 5:
            db.execute(f"set threads = {threads}")
            answers.add(tuple(db.execute(f"select exact_sum(x), exact_var(x) from (select x from t order by {order})").fetchone()))
    assert len(answers) == 1


def test_states_merge(table):
    db, groups = table
    parts = "select g % 5 as part, exact_state(x) as s from t group by g"
    whole = nearest(sum(v for group in groups.values() for v in group))
    assert db.execute(f"select exact_merge(s) from ({parts})").fetchone() == (whole,)
    assert db.execute(f"select exact_merge(s) from (select exact_merge_state(s) as s from ({parts}) group by part)").fetchone() == (whole,)


@pytest.mark.parametrize("name, dtype", [("tinyint", "int8"), ("utinyint", "uint8"), ("smallint", "int16"), ("usmallint", "uint16"),
                                         ("integer", "int32"), ("uinteger", "uint32"), ("bigint", "int64"), ("ubigint", "uint64")])
def test_integers(db, name, dtype):
    info = np.iinfo(dtype)
    values = [int(info.max)] * 3 + [int(info.min), 1]
    rows = ", ".join(f"(({v})::{name})" for v in values)
    total, mean = db.execute(f"select exact_sum(x), exact_avg(x) from (values {rows}) t(x)").fetchone()
    assert total == sum(values) and mean == nearest(Fraction(sum(values), len(values)))


@pytest.mark.parametrize("kind", ["usual", "wide", "cancelling", "nulls"])
def test_products(db, kind):
    db = db.cursor()
    x, y, g = numbers(kind, 6000), numbers("nulls", 6000), [i * i % GROUPS for i in range(6000)]
    if kind == "wide":
        y = [v and math.ldexp(v, -v.as_integer_ratio()[0] % 90) for v in y]
    db.register("columns", {"x": np.array([v or 0.0 for v in x]), "y": np.array([v or 0.0 for v in y]), "g": np.array(g),
                            "a": np.array([v is None for v in x]), "b": np.array([v is None for v in y])})
    db.execute("create or replace table p as select case when a then null else x end as x, case when b then null else y end as y, g from columns")
    groups = {}
    for u, v, k in zip(x, y, g):
        groups.setdefault(k, []).extend([] if u is None or v is None else [Fraction(u) * Fraction(v)])

    def rounded(v):
        return nearest(v) if abs(v) < Fraction(2) ** 1024 else math.copysign(math.inf, v)

    assert dict(db.execute("select g, exact_dot(x, y) from p group by g").fetchall()) == {k: rounded(sum(v)) for k, v in groups.items()}
    whole = (rounded(sum(v for group in groups.values() for v in group)),)
    for threads in 1, 3:
        db.execute(f"set threads = {threads}")
        assert db.execute("select exact_dot(x, y) from (select * from p order by hash(x))").fetchall() == [whole]
    f = db.execute("select exact_dot(x::float, 3::float) from p where x is not null and abs(x) < 1e30").fetchall()[0][0]
    assert f == nearest(sum(Fraction(float(np.float32(v))) * 3 for v in x if v is not None and abs(v) < 1e30))


def test_products_of_integers(db):
    for name, least in ("tinyint", -2**7), ("bigint", -2**63):
        found = db.execute(f"select exact_dot(a::{name}, b::{name}) from (values ({least}, {least}), ({least}, {-least - 1}), (3, 5)) t(a, b)").fetchone()[0]
        assert found == least * least - least * (least + 1) + 15
    big = f"select exact_dot(a, b) from (select (-9223372036854775807)::bigint a, a b from range(3) r(i))"
    with pytest.raises(duckdb.Error, match="does not fit HUGEINT"):
        db.execute(big).fetchall()
    assert db.execute("select exact_dot(1.0::double, null::double)").fetchone() == (None,)
    for x, y in ("1.0::double", "2::bigint"), ("1::hugeint", "1::hugeint"), ("'a'", "'b'"):
        with pytest.raises(duckdb.Error, match="exact_dot two of one type"):
            db.execute(f"select exact_dot({x}, {y})").fetchall()


def test_no_rows_are_null(db):
    assert db.execute("select exact_sum(x), exact_avg(x), exact_var(x), exact_state(x) from (select 1.0::double x) where false").fetchone() == (None,) * 4
    assert db.execute("select exact_var(x), exact_var_pop(x), exact_stddev(x) from (select 1.0::double x)").fetchone() == (None, 0.0, None)
    assert db.execute("select exact_merge(s) from (select null::blob s)").fetchone() == (None,)


def test_specials(db):
    def total(*values):
        rows = ", ".join(f"('{v}'::double)" for v in values)
        return db.execute(f"select exact_sum(x) from (values {rows}) t(x)").fetchone()[0]
    assert total("inf", "1") == math.inf and math.isnan(total("inf", "-inf")) and math.isnan(total("nan", "1"))
    assert math.copysign(1, total("-0.0", "-0.0")) == -1 and math.copysign(1, total("-0.0", "0.0")) == 1


@pytest.mark.parametrize("value", ["1.5::decimal(10, 2)", "1::hugeint", "true", "'a'", "'2020-01-01'::date"])
def test_what_would_be_rounded_is_refused(db, value):
    for name in "exact_sum", "exact_avg", "exact_var", "exact_state":
        with pytest.raises(duckdb.Error, match="exact aggregates take DOUBLE, FLOAT and integers"):
            db.execute(f"select {name}({value})").fetchall()


def test_damaged_states_are_refused(db):
    state = db.execute("select exact_state(x) from (values (1.5::double), (2)) t(x)").fetchone()[0]
    for at in 0, 1, 4, 6, 15, len(state) - 1:
        damaged = bytearray(state)
        damaged[at] ^= 0xff
        with pytest.raises(duckdb.Error, match="exact_merge: "):
            db.execute("select exact_merge(?::blob)", [bytes(damaged)]).fetchall()
    for cut in b"", state[:16], state[:-1], state + b"\0":
        with pytest.raises(duckdb.Error, match="exact_merge: "):
            db.execute("select exact_merge(?::blob)", [cut]).fetchall()
    with pytest.raises(duckdb.Error, match="different element types"):
        db.execute("select exact_merge(s) from (select exact_state(1.5::double) s union all select exact_state(1::integer))").fetchall()


def test_windows_and_filters(db):
    rows = "(values (1, 1e16::double), (2, 1), (3, -1e16)) t(i, x)"
    assert db.execute(f"select exact_sum(x) over (order by i) from {rows}").fetchall() == [(1e16,), (1e16,), (1.0,)]
    assert db.execute(f"select exact_sum(x) filter (x > 0) from {rows}").fetchone() == (1e16,)


def test_parquet(db, tmp_path):
    path = tmp_path / "x.parquet"
    db.execute(f"copy (select (random() - 0.5) * exp(random() * 40) as x, i % 11 as g from range(300000) r(i)) to '{path}'")
    answers = {db.execute(f"select exact_sum(x) from '{path}'").fetchone()[0] for _ in range(5)}
    x = db.execute(f"select x from '{path}'").fetchnumpy()["x"]
    assert answers == {math.fsum(x)}


def test_the_way_that_reducectl_names(db, tmp_path):
    """What `reducectl sum x.parquet` says, word by word."""
    values = numbers("cancelling", 5000)
    db.register("column_of_file", {"x": np.array(values)})
    db.execute(f"copy (select x from column_of_file) to '{tmp_path}/x.parquet' (format parquet)")
    said = subprocess.run([os.environ["REDUCECTL"], "sum", "x.parquet"], cwd=tmp_path, capture_output=True, text=True).stderr
    (sql,) = re.findall(r'duckdb -unsigned -c "(.*)"', said.replace("COLUMN", "x").replace("FILE", "x.parquet"))
    script = "import duckdb, sys; print(duckdb.connect(config={'allow_unsigned_extensions': 'true'}).execute(sys.argv[1]).fetchone()[0])"
    os.symlink(os.environ["DUCKDB_EXTENSION"], tmp_path / "reduced.duckdb_extension")
    found = subprocess.run([sys.executable, "-c", script, sql], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert float(found) == nearest(sum(map(Fraction, values)))
