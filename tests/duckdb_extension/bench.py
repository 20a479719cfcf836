"""Processor time of exact aggregates beside DuckDB's own, in one run: build/duckdb/venv/bin/python tests/duckdb_extension/bench.py EXTENSION"""
import resource
import sys

import duckdb

ROWS = 1 << 24
QUERIES = {"all rows": "select {} from t", "1000 groups": "select sum(s) from (select {} s from t group by g)",
           "10^6 groups": "select sum(s) from (select {} s from t group by h)"}
AGGREGATES = {"sum": ["sum", "fsum", "exact_sum"], "mean": ["avg", "favg", "exact_avg"], "variance": ["var_samp", "exact_var"],
              "products": ["sum(x * y)", "exact_dot(x, y)"]}

db = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
db.execute(f"load '{sys.argv[1]}'")
db.execute(f"""create table t as select random() + random() + random() - 1.5 as x, random() as y, (random() * 1000)::int as g,
               (random() * 1000000)::int as h from range({ROWS})""")


def seconds(query):
    """The median of seven runs, after one."""
    times = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_SELF)
        db.execute(query).fetchall()
        after = resource.getrusage(resource.RUSAGE_SELF)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(times[1:])[3]


print(f"DuckDB {duckdb.__version__}, 2^24 doubles in memory, 2 threads; processor time in ms, and its share of DuckDB's own")
for kind, query in QUERIES.items():
    for names in AGGREGATES.values():
        took = [seconds(query.format(name if "(" in name else f"{name}(x)")) for name in names]
        print(f"{kind:12}", "  ".join(f"{name} {1e3 * t:.0f}" for name, t in zip(names, took)), f"  {took[-1] / took[0]:.2f}")
