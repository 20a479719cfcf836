"""proto/protocol.json, which people who write clients read: it is what the code says, and PROTOCOL.md, the raw client and the
oracle have the same numbers."""
import json
import re
import struct
import subprocess

import pytest

import oracle
import rawclient
import sideclient
from conftest import BIN, ROOT

TEXT = (ROOT / "proto/protocol.json").read_text()
P = json.loads(TEXT)
PAGE = (ROOT / "proto/PROTOCOL.md").read_text()


def test_it_is_what_the_generator_makes():
    made = subprocess.run([BIN.parent / "proto/protocol-json"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert made == TEXT, "run: make protocol-json"


def test_every_number_of_the_limits_is_there():
    names = re.findall(r"^#define RP_(\w+) (?!\")\S", (ROOT / "proto/limits.h").read_text(), re.M)
    assert len(names) > 20 and {n.lower() for n in names} == set(P["limits"])


def test_the_raw_clients_numbers_are_these():
    assert {name: getattr(rawclient, name.upper()) for name in P["messages"]} == P["messages"]
    assert {name: getattr(sideclient, name.upper()) for name in P["packets"]} == P["packets"]
    assert dict(zip(rawclient.ERRORS, range(99))) == P["errors"]
    assert {name: getattr(rawclient, name) for name in P["spec_flags"]} == P["spec_flags"]
    assert rawclient.MAX_DATA == P["limits"]["max_data"]
    assert (oracle.OPS, oracle.NANS) == (P["ops"], P["nan_policies"])
    assert {d: (oracle.DTYPES[d], oracle.SIZE[d]) for d in oracle.DTYPES} == {d: (x["code"], x["bytes"]) for d, x in P["dtypes"].items()}
    assert struct.unpack("<I", rawclient.header(1, 0)[:4]) == struct.unpack("<I", b"RDCE")


def test_the_oracles_states_are_these():
    for op, types in P["results"].items():
        assert list(types) == [d for d in oracle.DTYPES if op in oracle.ops(d)], op
        for dtype, result in types.items():
            layout = P["layouts"][result["state"]]
            assert oracle.layout(op, dtype) == tuple(layout[k] for k in ("code", "sum", "squares", "others")), (op, dtype)
            assert oracle.state_size(op, dtype) == layout["bytes"]


def decoded(name, body):
    fields = P["structs"][name]["fields"]
    return {f: int.from_bytes(body[x["offset"] : x["offset"] + x["size"]], "little") for f, x in fields.items()}


def test_the_raw_clients_layouts_are_these():
    """What it writes, read by the file's offsets."""
    header = rawclient.header(4, 5, version=6, flags=7, status=8, time_ms=9, session=10, mid=11)
    assert decoded("header", header) == {"magic": int.from_bytes(b"RDCE", "little"), "version": 6, "type": 4, "flags": 7, "status": 8, "time_ms": 9,
                                         "session": 10, "id": 11, "body_len": 5}
    spec = rawclient.spec(1, 2, out=3, nan=4, flags=5, rows=6, row_len=7, index_base=8, ddof=9, initial=10, planes=11, device=12, tagged_len=13)
    assert decoded("spec", spec) == {"op": 1, "dtype": 2, "out": 3, "nan": 4, "tagged_len": 13, "flags": 5 | P["spec_flags"]["INITIAL"], "rows": 6, "row_len": 7,
                                     "index_base": 8, "ddof": 9, "initial": 10, "planes": 11, "device": 12}
    assert decoded("store", rawclient.store("abc", 4, 5, replace=True, ttl_ms=6)) == {
        "dtype": 4, "flags": P["store_flags"]["REPLACE"], "name_len": 3, "ttl_ms": 6, "bytes": 5}
    assert (len(header), len(spec)) == (P["structs"]["header"]["bytes"], P["structs"]["spec"]["bytes"])


def tables(section):
    """The rows (offset, size, field) of each table of layouts in a section of PROTOCOL.md; only fields of fixed size."""
    text = re.split(r"^#+ ", re.split(rf"^#+ {re.escape(section)}.*$", PAGE, flags=re.M)[1], flags=re.M)[0]
    for table in re.split(r"^\| offset \| size \|", text, flags=re.M)[1:]:
        rows = []
        for line in table.splitlines()[2:]:
            if not line.startswith("|"):
                break
            row = re.match(r"\| (\d+) \| (\d+) \| `(\w+)`(?:, `(\w+)`)?", line)
            if row:
                rows.append((row[3], {"offset": int(row[1]), "size": int(row[2])}))
        yield dict(rows)


@pytest.mark.parametrize("section, names", [
    ("Header", ["header"]), ("HELLO (1)", ["hello", "hello_reply"]), ("QUERY (3)", ["query", "entry"]), ("REDUCE (4)", ["spec", "result"]),
    ("APPEND (6)", ["append"]), ("FINISH (7)", ["finish"]), ("REDUCE_AT (9)", ["reduce_at"]), ("STORE (10)", ["store", "shape"]), ("WRITE (11)", ["write"]),
    ("LIST (14)", ["list_entry"]), ("Errors", ["error"]),
])
def test_the_pages_tables_are_these(section, names):
    found = list(tables(section))
    assert len(found) == len(names)
    for table, name in zip(found, names):
        assert table == P["structs"][name]["fields"], name
