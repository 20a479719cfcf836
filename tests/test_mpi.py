"""reduce_mpi.h, reduce_mpi.f90 and words under real MPIs, as many as are installed: any split over any number of ranks has the bits of
one call, and a fault of one rank is an error at all. Without an MPI the tests skip."""
import functools
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from fractions import Fraction as F

import numpy as np
import pytest

import gens
import oracle
import order
from conftest import BIN, LIB, ROOT
from test_device import device  # noqa: F401

MPIS = {"openmpi": ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl_base_warn_component_unused", "0"], "mpich": []}
NAMES = [pytest.param(m, marks=pytest.mark.skipif(not shutil.which(f"mpicc.{m}"), reason=f"no mpicc.{m}: make deps installs none")) for m in MPIS]
# A sanitizer would report what the MPI libraries leak.
pytestmark = pytest.mark.unsanitized


@functools.cache
def yields():
    """A library for LD_PRELOAD, in a folder that ends with this process."""
    folder = tempfile.TemporaryDirectory()
    library = pathlib.Path(folder.name) / "yields.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", ROOT / "tests/mpi/yields.c", "-o", library, "-ldl"], check=True)
    return folder, library


def environment(**more):
    library = {"LD_LIBRARY_PATH": f"{LIB}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **library, **more}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """built(mpi, source) -> the program; made once."""
    folder, made = tmp_path_factory.mktemp("mpi"), {}
    subprocess.run([sys.executable, ROOT / "client/fortran/generate", folder], check=True)

    def make(mpi, source):
        if (mpi, source) not in made:
            program = folder / f"{source.stem}.{mpi}"
            if source.suffix == ".c":
                compiler = [f"mpicc.{mpi}", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"]
                inputs = [source]
            else:
                compiler = [f"mpif90.{mpi}", "-Wall", "-Werror", "-O2", "-J", folder, "-fallow-argument-mismatch"]
                modules = ["reduce_mpi.f90"] + ["reduce_mpi_f08.f90"] * (source.stem == "f08")
                inputs = [*(folder / module for module in modules), source]
            command = [*compiler, f"-I{ROOT / 'client'}", *inputs, LIB / "libreduce.so", "-lm", "-o", program]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made[mpi, source] = program
        return made[mpi, source]
    return make


def launch(mpi, ranks, program, *args, timeout=120, ok=True):
    done = subprocess.run([f"mpirun.{mpi}", "-n", str(ranks), *MPIS[mpi], *map(str, program if isinstance(program, list) else [program]), *map(str, args)],
                          capture_output=True, text=True, timeout=timeout, env=environment(**({"LD_PRELOAD": str(yields()[1])} if mpi == "mpich" else {})))
    assert (done.returncode == 0) == ok, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


# ---- the same bits ----
def cut(rng, n, parts):
    return [0, *sorted(int(x) for x in rng.integers(0, n + 1, parts - 1)), n]


def cases(rng, ranks, large):
    """(op, dtype, nan, out, ddof, elements, bounds): adversarial numbers, shuffled and cut at random; some ranks have none."""
    for i, (dtype, make) in enumerate((d, g) for d in ("f64", "f32", "i64") for g in gens.of(d)):
        ops = oracle.ops(dtype)
        op = ops[int(rng.integers(len(ops)))] if i % 3 else ("sum", "var", "stats", "min")[i // 3 % 4]
        bits = rng.permutation(make(rng, dtype, int(rng.integers(1, large))))
        outs = oracle.outs(op, dtype)
        out = None if op == "stats" else outs[int(rng.integers(len(outs)))]
        ddof = int(rng.integers(3)) if op in ("var", "std", "sem", "stats") else 0
        yield op, dtype, list(oracle.NANS)[i % 3], out, ddof, bits, cut(rng, len(bits), ranks)


def expected(op, dtype, nan, out, ddof, bits):
    elements = oracle.Elements(dtype, bits, 0)
    code, cell = oracle.reduce_or_fault(op, dtype, bits, nan=nan, out=out, ddof=ddof)
    state = oracle.state(elements, op, nan).hex()
    size = 96 if op == "stats" else oracle.SIZE[out] * (2 if op == "minmax" else 1)
    words = state if oracle.words(op, dtype, bytes.fromhex(state))[0] else "-"
    return f"{code} {cell.to_bytes(size, 'little').hex() if code == 'OK' else '-'} {state} {words} {state}"


def check_cases(built, scratch, mpi, ranks, large, *more):
    rng = np.random.default_rng(ranks)
    data, lines, wanted = b"", [], []
    for op, dtype, nan, out, ddof, bits, bounds in cases(rng, ranks, large):
        size = oracle.SIZE[dtype]
        at = " ".join(str(len(data) + size * b) for b in bounds)
        lines.append(f"{oracle.OPS[op]} {oracle.DTYPES[dtype]} {oracle.NANS[nan]} {oracle.DTYPES[out] if out else 0} {ddof} {at}\n")
        wanted.append((op, dtype, nan, expected(op, dtype, nan, out, ddof, bits)))
        data += bits.tobytes() + bytes(-len(bits) * size % 8)
    (scratch / "data").write_bytes(data)
    (scratch / "cases").write_text("".join(lines))
    got = launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/cases.c"), scratch / "data", scratch / "cases", *more).splitlines()
    assert len(got) == len(wanted) > 40
    for (op, dtype, nan, want), line in zip(wanted, got):
        assert line == want, (op, dtype, nan, ranks)


@pytest.mark.parametrize("ranks", [2, 5, 8])
@pytest.mark.parametrize("mpi", NAMES)
def test_any_split_has_the_bits_of_one_call(built, scratch, mpi, ranks):
    """By value, by state, by words and by the MPI_Op, added without a daemon."""
    check_cases(built, scratch, mpi, ranks, 300)


@pytest.mark.parametrize("mpi", NAMES)
def test_by_daemons(built, scratch, shared, mpi):
    """Arrays of more than 64 KiB go to the daemon, and so do the same elements as a file, an item of the same call."""
    before = shared.status()["requests.reduce"]
    check_cases(built, scratch, mpi, 2, 30000, shared.url)
    assert shared.status()["requests.reduce"] > before


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("mpi", NAMES)
def test_files_and_device_memory(built, scratch, device, mpi, ranks):  # noqa: F811
    """Memory, a file by descriptor and device memory as items of one call."""
    check_cases(built, scratch, mpi, ranks, 3000, device().url, "device")


def elements(n):
    """Those of tests/mpi/scaling.c."""
    h = (np.arange(n, dtype="u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ h >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    return (h & np.uint64(0x800FFFFFFFFFFFFF) | np.uint64(1023 - 16) + (h >> np.uint64(52) & np.uint64(31)) << np.uint64(52)).view("<f8")


@pytest.mark.parametrize("mpi", NAMES)
def test_the_sum_of_an_array_for_any_number_of_ranks(built, shared, mpi):
    n, exact, plain = 100_003, set(), set()
    for ranks, url in ((1, []), (3, [shared.url]), (8, [])):
        out = launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/scaling.c"), n, *url)
        values = re.fullmatch(rf"{ranks} ranks: exact (\S+), MPI_SUM (\S+), \S+ s\n", out).groups()
        exact.add(float.fromhex(values[0]))
        plain.add(float.fromhex(values[1]))
    assert exact == {math.fsum(elements(n).tolist())} and len(plain) > 1


@pytest.mark.parametrize("mpi", NAMES)
def test_quantiles_for_any_number_of_ranks(built, mpi):
    """tests/mpi/order.c: the same values as of one array."""
    n, h = 10_007, (np.arange(10_007, dtype="u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = [int(v) for v in (h ^ h >> np.uint64(27)).view("i8")]
    x = sorted(float(v) / 4096 for v in x)
    want = []
    for q in (F(1, 2), F(1, 10), F(1, 4), F(1, 2), F(999, 1000)):
        j, g = order.place("linear", n, q)
        a, b = np.array([x[j], x[min(j + 1, n - 1)]]).view("u8")
        want.append(struct.unpack("<d", order.between(a, b, g, "f64", "f64").to_bytes(8, "little"))[0])
    want.append(x[-3])
    for ranks in (1, 3, 8):
        out = launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/order.c"), n)
        assert [float.fromhex(v) for v in out.split()] == want, ranks


@pytest.mark.parametrize("mpi", NAMES)
def test_best_elements_for_any_number_of_ranks(built, shared, mpi):
    """tests/mpi/top.c: NaNs first unless they are left out, of equal elements the first ones, and places that do not exist."""
    for n, k in ((5003, 70), (11, 20)):
        h = ((np.arange(n, dtype="u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).tolist()
        x = [math.nan if v % 101 == 0 else (v % 97 - 48) / 8 for v in h]
        want = []
        for omit in (False, True):
            for sign in (-1, 1):
                best = sorted((i for i in range(n) if not (omit and math.isnan(x[i]))), key=lambda i: (not math.isnan(x[i]), 0 if math.isnan(x[i]) else sign * x[i], i))[:k]
                want.append([(repr(x[i]), i) for i in best] + [("nan", -1)] * (k - len(best)))
        for ranks in (1, 3, 8):
            out = launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/top.c"), n, k, shared.url)
            rows = [line.split() for line in out.splitlines()]
            assert [[(repr(float.fromhex(v)), int(i)) for v, i in zip(row[::2], row[1::2])] for row in rows] == want, ranks


@pytest.mark.parametrize("mpi", NAMES)
def test_by_key_for_any_number_of_ranks(built, mpi):
    """States of groups merge over ranks as those of rows."""
    for ranks in (1, 2, 5):
        assert launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/keyed.c")) == "fine\n"


@pytest.mark.parametrize("mpi", NAMES)
def test_the_header_is_c_and_cplusplus(mpi, scratch):
    """As installed: beside reduce.h, with warnings as errors, in several translation units."""
    (scratch / "a.c").write_text("#include <reduce_mpi.h>\nMPI_Op f(void) { return reduce_mpi_op(); }\n")
    for compiler, flags in ((f"mpicc.{mpi}", ["-std=c99", "-Wpedantic"]), (f"mpicxx.{mpi}", ["-std=c++17", "-x", "c++", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"])):
        done = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'client'}", "-fsyntax-only", scratch / "a.c"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


STAND_IN = """
#define MPI_SUCCESS 0
#define MPI_OP_NULL 0
#define MPI_DATATYPE_NULL 0
#define MPI_BYTE 1
#define MPI_INT 2
#define MPI_UINT64_T 3
#define MPI_MIN 1
#define MPI_SUM 2
#define MPI_ERR_OP 2
#define MPI_ERR_COUNT 3
#define MPI_IN_PLACE ((void *)-1)
typedef int MPI_Op, MPI_Datatype, MPI_Comm;
typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
int MPI_Type_size(MPI_Datatype, int *), MPI_Type_contiguous(int, MPI_Datatype, MPI_Datatype *), MPI_Type_commit(MPI_Datatype *);
int MPI_Type_free(MPI_Datatype *), MPI_Comm_rank(MPI_Comm, int *), MPI_Comm_size(MPI_Comm, int *), MPI_Op_create(MPI_User_function *, int, MPI_Op *);
int MPI_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Allgather(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
"""
TWO_THREADS = r"""
#include <pthread.h>
#include <reduce_mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int made, tid;
static pthread_t other;
static MPI_Op its;

static void *ask(void *arg)
{
    tid = (int)syscall(SYS_gettid);
    its = reduce_mpi_op();
    return arg;
}

static int is_blocked(void)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *f = tid ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (f)
        fclose(f);
    return state == 'S';
}

/* While the first thread is here, the other one asks too: it comes here as well, or waits. */
int MPI_Op_create(MPI_User_function *f, int commutes, MPI_Op *op)
{
    (void)f, (void)commutes;
    *op = 100 + ++made;
    if (made == 1 && pthread_create(&other, NULL, ask, NULL))
        return 1;
    while (made == 1 && !is_blocked())
        ;
    return MPI_SUCCESS;
}

int MPI_Type_size(MPI_Datatype type, int *bytes) { return *bytes = type; }

int main(void)
{
    MPI_Op mine = reduce_mpi_op();
    pthread_join(other, NULL);
    printf("%d %d %d", made, mine, its);
}
"""


def test_threads_share_one_operation(scratch):
    """Without an MPI: a stand-in for its header shows two threads that ask for the MPI_Op at once."""
    (scratch / "mpi.h").write_text(STAND_IN)
    (scratch / "a.c").write_text(TWO_THREADS)
    subprocess.run(["gcc", "-std=gnu11", "-Wall", f"-I{scratch}", f"-I{ROOT / 'client'}", scratch / "a.c", f"-L{LIB}", "-lreduce", "-pthread",
                    f"-Wl,-rpath,{LIB}", "-o", scratch / "a"], check=True)
    assert subprocess.run([scratch / "a"], capture_output=True, text=True, timeout=60, check=True).stdout == "1 101 101"


@pytest.mark.parametrize("mpi", NAMES)
def test_every_call(built, shared, mpi):
    """In place, with a root, on parts of the ranks, of several arrays, rows and files."""
    for ranks in (1, 2) if mpi == "mpich" else (1, 4):
        assert launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/calls.c"), shared.url) == "fine\n"


@pytest.mark.parametrize("mpi", NAMES)
def test_requests_under_way_at_once(built, mpi):
    """Nonblocking calls, in whatever order the ranks end them."""
    for ranks in (1, 2, 4):
        assert launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/nonblocking.c")) == "fine\n"


# ---- faults ----
FAULTS = """same_length BAD_MESSAGE|other_length BAD_MESSAGE|other_dtype BAD_MESSAGE|no_data ARGUMENT|half_element SHAPE|no_room ARGUMENT|no_op OP|empty EMPTY
nan NAN|overflow OVERFLOW|fewer_items BAD_MESSAGE|no_items BAD_MESSAGE|two_exchanges OK|magic BAD_MESSAGE|form VERSION|key BAD_MESSAGE|total BAD_MESSAGE
held BAD_MESSAGE|states BAD_MESSAGE|truncated BAD_MESSAGE|exchange IO|median SHAPE|carried BAD_MESSAGE|words BAD_MESSAGE|longer_words BAD_MESSAGE|no_client ARGUMENT"""


@pytest.mark.parametrize("mpi", NAMES)
def test_a_fault_of_one_rank_is_an_error_at_all(built, mpi):
    """Each followed by a good reduction, in bounded time."""
    ranks = 2 if mpi == "mpich" else 5
    lines = launch(mpi, ranks, built(mpi, ROOT / "tests/mpi/errors.c")).splitlines()
    want = [f.split() for f in re.split(r"[|\n]", FAULTS)]
    assert [line.split(":")[0].split() for line in lines] == [[name] + [code] * ranks for name, code in want]
    texts = {line.split()[0]: line.split(": ", 1)[1] for line in lines}
    assert texts["no_data"] == f"ARGUMENT: rank {ranks - 1}: the pointer to the data is NULL"
    assert texts["median"] == f"SHAPE: rank {ranks - 1}: 5 bytes are not a multiple of the 8-byte element"
    assert texts["overflow"].endswith(f"the exact value is {ranks * (2**63 - 1)}")


@pytest.mark.parametrize("mpi", NAMES)
def test_a_daemon_that_dies_under_a_rank(built, start, mpi):
    daemon = start()
    lines = launch(mpi, 2, built(mpi, ROOT / "tests/mpi/errors.c"), daemon.url, daemon.process.pid).splitlines()
    daemon.process.wait()
    daemon.process.returncode = 0  # it was killed on purpose
    assert [line.split(":")[0] for line in lines[-7:]] == ["file OK OK", "short_file IO IO", "no_device TYPE TYPE", "living OK OK",
                                                           "stopped DEADLINE DEADLINE", "dying NO_DAEMON NO_DAEMON", "dead NO_DAEMON NO_DAEMON"]
    assert "rank 1" in lines[-1]


@pytest.mark.parametrize("mpi", NAMES)
def test_a_rank_that_dies_ends_the_job(built, mpi):
    launch(mpi, 2, built(mpi, ROOT / "tests/mpi/errors.c"), "die", timeout=60, ok=False)


# ---- reducectl on a cluster ----
@pytest.mark.parametrize("mpi", NAMES)
def test_reducectl_mpi(built, scratch, mpi, monkeypatch):
    """One answer, from a daemon that is started for the job and leaves with it."""
    program = built(mpi, ROOT / "client/examples/reducectl_mpi.c")
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    rng = np.random.default_rng(3)
    parts = [gens.full_range(rng, "f64", n) for n in (3000, 1, 0, 777)]
    for i, bits in enumerate(parts):
        np.save(scratch / f"p{i}.npy", bits.view("<f8"))
    files, bits = [scratch / f"p{i}.npy" for i in range(len(parts))], np.concatenate(parts)
    before = set(os.listdir("/tmp"))
    for ranks in (1, 2) if mpi == "mpich" else (1, 3):
        out = launch(mpi, ranks, program, "sum", "--hex", *files)
        assert float.fromhex(out) == oracle.float_value(oracle.reduce("sum", "f64", bits), "f64"), ranks
    assert int(launch(mpi, 2, program, "argmax", *files)) == oracle.reduce("argmax", "f64", bits)
    launch(mpi, 2, program, "sum", scratch / "none.npy", ok=False)
    left, end = {name for name in set(os.listdir("/tmp")) - before if name.startswith("reducectl-mpi")}, time.monotonic() + 60
    while left:  # those of another run of this test go soon, ours are gone
        assert time.monotonic() < end, left
        time.sleep(0.1)  # poll interval
        left &= set(os.listdir("/tmp"))


# ---- the examples ----
HEAT = re.compile(r"residual +(\S+) heat +(\S+)")


@pytest.fixture(scope="module")
def heat(built):
    """What the example prints, by whatever it is written in; the same everywhere."""
    seen = {}

    def same(values, how):
        seen.setdefault(values, how)
        assert len(seen) == 1, seen
    return same


@pytest.mark.parametrize("mpi", NAMES)
def test_heat_in_c(built, heat, mpi):
    for ranks in (1, 3, 8):
        out = launch(mpi, ranks, built(mpi, ROOT / "client/examples/heat_mpi.c"), 30)
        heat(tuple(map(float.fromhex, HEAT.search(out).groups())), (mpi, "C", ranks))


@pytest.mark.parametrize("mpi", NAMES)
def test_global_means_of_a_climate(built, mpi):
    """Eight masked, weighted fields in one call: the bits of any number of ranks, near those of the sums written by hand."""
    seen = set()
    for ranks in (1, 3, 8):
        lines = [line.split() for line in launch(mpi, ranks, built(mpi, ROOT / "client/examples/climate_mpi.c"), 20_000).splitlines() if line[:5] in ("plain", "exact", "fixed")]
        means = {name: np.array(values, float) for name, *values in lines}
        assert len(means["exact"]) == 8 and np.allclose(means["exact"], means["plain"], rtol=1e-9) and np.allclose(means["exact"], means["fixed"], rtol=1e-12)
        seen.add(means["exact"].tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("mpi", NAMES)
def test_heat_in_fortran(built, heat, mpi):
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    for ranks in (1, 8):
        out = launch(mpi, ranks, built(mpi, ROOT / "client/examples/heat_mpi.f90"), 30)
        heat(tuple(map(float, HEAT.search(out).groups())), (mpi, "Fortran", ranks))


@pytest.mark.parametrize("program", ["kinds", "f08"])
@pytest.mark.parametrize("mpi", NAMES)
def test_fortran(built, shared, mpi, program):
    """Every kind and rank of array, parts of arrays, items with blocks; with `use mpi` and `use mpi_f08`."""
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    for ranks in (1, 2, 4):
        assert launch(mpi, ranks, built(mpi, ROOT / f"tests/mpi/{program}.f90"), shared.url).split() == ["fine"]


def test_heat_in_python(heat):
    """mpi4py, by words. NumPy's sin is not libm's, so the first state may differ in the last place from C's; not between ranks."""
    pytest.importorskip("mpi4py", reason="no mpi4py")
    library = subprocess.run([sys.executable, "-c", "import mpi4py.MPI as M; print(M.Get_library_version())"], capture_output=True, text=True,
                             env=environment()).stdout
    mpi = "openmpi" if "Open MPI" in library else "mpich"
    program = [sys.executable, ROOT / "client" / "examples" / "heat_mpi.py"]
    assert len({HEAT.search(launch(mpi, ranks, program, 30)).groups() for ranks in (1, 4)}) == 1
