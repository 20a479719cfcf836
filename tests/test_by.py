"""reducectl --by: groups of a table's column beside Python's csv and fractions. No daemon runs."""
import csv
import gzip
import io
import json
import random
import subprocess
from fractions import Fraction

import pytest

from conftest import BIN

REDUCECTL = BIN / "reducectl"


def run(*args, stdin=None, code=0):
    r = subprocess.run([REDUCECTL, *map(str, args)], input=stdin, capture_output=True, timeout=60,
                       env={"REDUCED_URL": "ipc:///nobody/listens", "PATH": "/usr/bin:/bin"})
    assert r.returncode == code, r.stderr
    return (r.stdout if code == 0 else r.stderr).decode()


def lines(text):
    return [line.split("\t") for line in text.splitlines()]


def nearest(value):
    return float(value) if isinstance(value, int) else value.numerator / value.denominator


@pytest.fixture(params=[",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def table(request, tmp_path):
    """(path, records): texts with quotes, numbers of all sizes, missing ones."""
    draw = random.Random(request.param)
    texts = ["Oslo", "Rome", "a b", 'say "x"', "x,y", "p;q", "", "Ünïcode", "10", "9"]
    records = [(draw.choice(texts), str(draw.randint(1, 12)), draw.choice(["", repr(draw.gauss(0, 1) * 10.0 ** draw.randint(-30, 30)), str(draw.randint(-99, 99))]),
                str(draw.randint(-2**53, 2**53))) for _ in range(4000)]
    out = io.StringIO()
    w = csv.writer(out, delimiter=request.param, lineterminator="\n")
    w.writerow(["city", "day", "price", "id"])
    w.writerows(records)
    path = tmp_path / "t.csv"
    path.write_text(out.getvalue())
    return path, records


def groups_of(records, keys, value, number):
    found = {}
    for r in records:
        found.setdefault(tuple(r[k] for k in keys), []).append(number(r[value]) if r[value] else None)
    return found


def test_means_and_counts(table):
    path, records = table
    found = lines(run("mean,sum,count", "--by", "city", "--nan", "omit", f"{path}:price"))
    assert found[0] == ["city", "mean", "sum", "count"]
    wanted = {k: [v for v in values if v is not None] for (k,), values in groups_of(records, [0], 2, lambda x: Fraction(float(x))).items()}
    assert [row[0] for row in found[1:]] == sorted(wanted, key=lambda k: k.encode())
    for key, mean, total, count in found[1:]:
        values = wanted[key]
        assert float(total) == nearest(sum(values)) and float(mean) == nearest(sum(values) / len(values)) and int(count) == len(values)


def test_two_columns_of_keys_and_integers(table):
    path, records = table
    found = [json.loads(line) for line in run("sum,max,argmax", "--by", "city,day", "--json", "--json-strings", f"{path}:id").splitlines()]
    wanted = groups_of(records, [0, 1], 3, int)
    assert {(r["by"]["city"], r["by"]["day"]) for r in found} == set(wanted)
    for r in found:
        key = r["by"]["city"], r["by"]["day"]
        values = wanted[key]
        assert int(r["value"]["sum"]) == sum(values) and int(r["value"]["max"]) == max(values)
        assert records[int(r["value"]["argmax"])][3] == str(max(values)) and records[int(r["value"]["argmax"])][:2] == key


def test_places_count_what_is_left_out(table):
    path, records = table
    for key, place in lines(run("argmax", "--by", "city", "--nan", "omit", f"{path}:price"))[1:]:
        r = records[int(place)]
        assert r[0] == key and float(r[2]) == max(float(x[2]) for x in records if x[0] == key and x[2])


@pytest.mark.parametrize("options", [(), ("--dtype", "f64"), ("--dtype", "i64"), ("--missing", "?")])
def test_groups_of_missing_values_alone(tmp_path, options):
    """They had no line without --dtype. `?`: the nan of c is a number."""
    path = tmp_path / "m.csv"
    missing = "?" if "--missing" in options else ""
    path.write_text(f"k,v\na,1\nb,{missing}\nc,{missing or 'nan'}\na,3\nd,-2\nb,{missing}\n")
    assert lines(run("sum,count,mean,any", "--by", "k", "--nan", "omit", *options, f"{path}:v"))[1:] == [
        ["a", "4", "2", "2", "true"], ["b", "0", "0", "nan", "false"], ["c", "0", "0", "nan", "false"], ["d", "-2", "1", "-2", "true"]]
    assert "EMPTY: group 'b': max of no elements" in run("max,count", "--by", "k", "--nan", "omit", *options, f"{path}:v", code=1)
    found = [row[1:2] + row[4:7] for row in lines(run("stats", "--by", "k", "--nan", "omit", *options, f"{path}:v"))[1:]]
    assert found == [["2", "1", "3", "0"], ["0"] + ["none"] * 3, ["0"] + ["none"] * 3, ["1", "-2", "-2", "4"]]


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_among_several_operations(table, op):
    path, _ = table
    options = "--by", "city", "--nan", "omit", f"{path}:price"
    alone = lines(run(op, *options))
    for ops in (f"any,{op}", f"{op},any", f"mean,{op}"):
        found = lines(run(ops, *options))
        place = found[0].index(op)
        assert [[row[0], row[place]] for row in found] == alone, ops


def test_numbers_are_sorted_as_numbers(table):
    path, _ = table
    assert [row[0] for row in lines(run("count", "--by", "day", f"{path}:id"))[1:]] == [str(i) for i in range(1, 13)]


def test_each_column_has_its_order(tmp_path):
    """Numbers as numbers, in each column; texts that are NaNs make it one of texts, as NaNs have no order."""
    path = tmp_path / "two.csv"
    path.write_text("city,day,code,v\n" + "".join(f"{c},{d},{k},1\n" for c, d, k in (
        ("b", 2, "10"), ("b", 10, "nan"), ("a", 10, "9"), ("a", -3, "-nan"), ("a", 9, "+5"))))
    assert [row[:2] for row in lines(run("sum", "--by", "city,day", f"{path}:v"))[1:]] == [
        ["a", "-3"], ["a", "9"], ["a", "10"], ["b", "2"], ["b", "10"]]
    assert [row[:2] for row in lines(run("sum", "--by", "day,city", f"{path}:v"))[1:]] == [
        ["-3", "a"], ["2", "b"], ["9", "a"], ["10", "a"], ["10", "b"]]
    assert [row[0] for row in lines(run("sum", "--by", "code", f"{path}:v"))[1:]] == ["+5", "-nan", "10", "9", "nan"]


def test_top(table):
    path, _ = table
    every = lines(run("sum", "--by", "day", "--dtype", "f64", f"{path}:id"))[1:]
    wanted = sorted(every, key=lambda row: -float(row[1]))[:3]
    assert lines(run("sum", "--by", "day", "--dtype", "f64", "--top", "3", f"{path}:id"))[1:] == wanted


def test_a_pipe_and_an_order(table):
    path, records = table
    text = path.read_text()
    head, *rest = text.splitlines(keepends=True)
    random.Random(1).shuffle(rest)
    shuffled = (head + "".join(rest)).encode()
    wanted = run("sum,var", "--by", "city", "--nan", "omit", f"{path}:price")
    assert run("sum,var", "--by", "city", "--nan", "omit", "-:price", stdin=shuffled) == wanted


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_long_pipe_of_integers(tmp_path, packed):
    """More than is read before their type is known; a compressed file cannot be read twice either."""
    text = ("k,v\n" + "a,1000001\nb,1000002\n" * 150_000).encode()
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    wanted = "k\tsum\targmax\na\t150000150000\t0\nb\t150000300000\t1\n"
    assert run("sum,argmax", "--by", "k", f"{path}:v") == run("sum,argmax", "--by", "k", "-:v", stdin=path.read_bytes()) == wanted


def test_columns_by_number_and_without_a_header(tmp_path):
    path = tmp_path / "t"
    path.write_text("x,1\ny,2\nx,4\n")
    assert run("sum", "--no-header", "--by", "1", f"{path}:2") == "1\tsum\nx\t5\ny\t2\n"
    assert run("minmax", "--no-header", "--by", "#1", f"{path}:#2") == "1\tmin\tmax\nx\t1\t4\ny\t2\t2\n"


def test_many_groups(tmp_path):
    draw = random.Random(2)
    rows = [(draw.randint(0, 30_000), draw.randint(-9, 9)) for _ in range(60_000)]
    path = tmp_path / "t.csv"
    path.write_text("key,value\n" + "".join(f"k{k},{v}\n" for k, v in rows))
    wanted = {}
    for k, v in rows:
        wanted[f"k{k}"] = wanted.get(f"k{k}", 0) + v
    assert lines(run("sum", "--by", "key", f"{path}:value"))[1:] == [[k, str(v)] for k, v in sorted(wanted.items())]


@pytest.mark.parametrize("groups, kind", [(1, "drawn"), (100, "sorted"), (129, "one is huge"), (10_000, "drawn"), (10_000, "all equal")])
def test_the_order_of_lines_changes_nothing(tmp_path, groups, kind):
    """Of whole numbers, and of doubles whose sum from left to right depends on the order."""
    draw = random.Random(groups)
    keys = [draw.randrange(groups) for _ in range(20_000)]
    if kind != "drawn":
        keys = {"sorted": sorted(keys), "one is huge": [k if draw.random() < 0.05 else 7 for k in keys], "all equal": [7] * len(keys)}[kind]
    rows = [f"{k},{draw.gauss(0, 1) * 2.0 ** draw.randint(-60, 60)!r},{draw.randint(-2**40, 2**40)}\n" for k in keys]
    path, found = tmp_path / "t.csv", []
    for order in "given", "drawn", "backwards":
        path.write_text("key,x,n\n" + "".join(rows))
        found.append([run(ops, "--by", "key", f"{path}:{column}") for ops in ("sum,var,max", "mean") for column in ("x", "n")])
        rows = draw.sample(rows, len(rows)) if order == "given" else rows[::-1]
    assert found[0] == found[1] == found[2] and len(lines(found[0][0])) == len(set(keys)) + 1


@pytest.mark.parametrize("args, said", [
    (["sum", "--by", "town", "T:n"], "no column 'town'; there are city, n"),
    (["sum", "--by", "", "T:n"], "--by needs 1 to 8 columns"),
    (["sum", "--by", "city,,n", "T:n"], "--by needs 1 to 8 columns"),
    (["sum", "--by", ",".join(["city"] * 9), "T:n"], "--by needs 1 to 8 columns"),
    (["sum", "--by", "city", "T"], "name a column"),
    (["median", "--by", "city", "T:n"], "order statistics have no groups so far"),
    (["stats", "--quantiles", "--by", "city", "T:n"], "order statistics have no groups so far"),
    (["sum", "--top", "3", "T:n"], "--top is for groups"),
    (["sum", "--by", "city", "--rows", "2", "T:n"], "--by is for one column of one table"),
    (["and", "--by", "city", "--dtype", "f64", "T:n"], "is for integers"),
    (["sum", "--by", "city", "--dtype", "i64", "T:big"], "group 'a': the exact sum does not fit i64; the exact value is 18446744073709551610"),
    (["max", "--by", "city", "--dtype", "f64", "--nan", "omit", "T:m"], "group 'a': "),
    (["sum", "--by", "city", "--dtype", "i8", "T:n"], "'300'"),
])
def test_what_is_refused(args, said, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text({"T:m": "city,n,m\na,1,\nb,300,2\n", "T:big": f"city,big\na,{2**63 - 3}\na,{2**63 - 3}\n"}.get(args[-1], "city,n\na,1\nb,300\n"))
    usage = any(word in said for word in ("1 to 8 columns", "so far", "--top", "one column of one table"))
    told = run(*[a.replace("T", str(path)) if a.startswith("T") else a for a in args], code=2 if usage else 1)
    assert said in told


def test_keys_are_shown_without_controls(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('key,n\n"\u202ered",1\n"a\tb",2\n')
    assert run("sum", "--by", "key", "--delimiter", ",", f"{path}:n") == "key\tsum\na?b\t2\n?red\t1\n"


def test_a_key_that_is_too_long(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("key,n\n" + "k" * 2000 + ",1\nx,2\n")
    assert "line 2: a key is longer than 1023 bytes" in run("sum", "--by", "key", f"{path}:n", code=1)
