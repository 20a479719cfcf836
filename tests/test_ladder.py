"""reducectl ladder without a GPU: the CPU rungs are right, the others say what they need, and what is printed can be read."""
import csv
import io
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from conftest import BIN, SANITIZER, terminal

OK, FAILED, USAGE = 0, 1, 2
CPU = ["cpu-sequential", "cpu-recursive-neighbored", "cpu-recursive-interleaved"]
GPU = ["atomic", "atomic-warp", "atomic-block", "neighbored", "neighbored-shared", "neighbored-compact",
       "neighbored-compact-shared", "interleaved", "interleaved-shared", "first-add-shared", "segment-atomic", "coarsened",
       "unroll2", "unroll4", "unroll8", "unroll8-warp", "unroll8-complete", "unroll8-template", "unroll8-template-shared",
       "nested", "nested-nosync", "nested-fixed", "cub", "chain"]
GPU_NAME = """A "GPU" 'of', 1\\2 `echo`"""  # what JSON, CSV and gnuplot would rather quote


@pytest.fixture
def ladder(scratch):
    """ladder(*args, code=0, env={}) -> (stdout, stderr) of `reducectl ladder`, which must leave with the code. It sees no
    GPU and no daemon."""

    def run(*args, code=OK, env=(), program=BIN / "reducectl"):
        full = {**os.environ, "XDG_RUNTIME_DIR": str(scratch), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8", **dict(env)}
        done = subprocess.run([program, "ladder", *map(str, args)], capture_output=True, env=full, timeout=300)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert not SANITIZER.search(err), err
        assert done.returncode == code, (out, err)
        return out, err

    return run


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def exact(n):
    """The sum of the ladder's data, from their definition: splitmix64 of the index, odd integers from -7 to 7."""
    total = 0
    for first in range(0, n, 1 << 22):
        with np.errstate(over="ignore"):
            z = (np.arange(first + 1, min(first + (1 << 22), n) + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += int((2 * (z >> np.uint64(61)).astype(np.int64) - 7).sum())
    return total


def check_cpu_rungs(ladder, *sizes):
    names = [name for name, _ in sizes]
    out, _ = ladder("--n", ",".join(names), "--rungs", "cpu-*", "--dtype", "i32,f32", "--repeat", 1, "--json")
    got = rows(out)
    assert [(r["dtype"], r["n"], r["rung"]) for r in got] == [
        (dtype, n, rung) for dtype in ("i32", "f32") for _, n in sizes for rung in CPU]
    for r in got:
        assert (r["verdict"], r["value"], r["exact"], r["runs"]) == ("right", exact(r["n"]), exact(r["n"]), 1), r
        assert r["ms_min"] <= r["ms"] <= r["ms_max"]
        assert r["gbs"] == pytest.approx(4 * r["n"] / r["ms"] * 1e-6, rel=1e-6) if r["ms"] else r["gbs"] is None


def test_cpu_rungs_are_right_for_any_n(ladder):
    check_cpu_rungs(ladder, *((str(n), n) for n in (1, 2, 3, 31, 32, 33, 1000)), ("2^20-1", 2**20 - 1), ("2^20", 2**20),
                    ("2^20+1", 2**20 + 1))


@pytest.mark.slow
def test_cpu_rungs_are_right_for_2_to_26(ladder):
    check_cpu_rungs(ladder, ("2^26", 2**26))


def test_check_counts_each_combination_once(ladder):
    out, _ = ladder("--check", "-n", "1,2^12", "--block", "32,1024", "--finish", "relaunch,host", "-t", "i32,f32")
    # three CPU rungs know no block and no finish; of the others cub and chain run once, 4 WHOLE ones for each block
    want = 2 * 2 * (2 + 4 * 2 + (len(GPU) - 6) * 2 * 2)
    assert out == f"ladder: {2 * 2 * 3} right, 0 wrong, 0 failed, {want} not run\n"


def test_every_rung_of_the_notes_is_there(ladder):
    out, _ = ladder("--list")
    assert [line.split()[0] for line in out.splitlines()] == CPU + GPU


def test_table_without_gpu(ladder):
    out, err = ladder("-n", "2^10,2^22", "--repeat", 2)
    assert err == ""
    tables = out.split("i32, n = ")[1:]
    assert [t.split(",")[0] for t in tables] == ["2^10", "2^22"]
    for table in tables:
        lines = {line.split()[0]: line for line in table.splitlines() if line.strip()}
        assert not any(r in lines for r in GPU)
        assert "\u2588" in table and "\x1b" not in out
    told, = [line for line in out.splitlines() if "needs a GPU" in line]
    assert told.endswith(": " + ", ".join(GPU)), "said once, for all of them"
    lines = [line for line in tables[1].splitlines() if line.startswith("cpu-")]
    assert all("right" in line for line in lines[:3])
    assert "1.00x" in lines[2] and "8.448 ms, i9-10920X" in lines[2]
    assert "RTX 3090 (936 GB/s)" in tables[1] and "published:" not in tables[0]


def test_speed_ups_are_over_the_baseline_and_the_rung_before(ladder):
    got = rows(ladder("-n", "2^16", "--rungs", "cpu-*", "--json")[0])
    base = got[2]["ms"]
    for before, r in zip([None] + got, got):
        assert r["over_cpu"] == pytest.approx(base / r["ms"], rel=1e-6)
        assert r["over_before"] == (pytest.approx(before["ms"] / r["ms"], rel=1e-6) if before else None)
        assert r["share"] is None and r["runs"] == 21


def test_json_and_csv_say_the_same(ladder, scratch):
    (scratch / "j").write_text(ladder("-n", "1000,2^22", "--json", "--repeat", 3)[0])
    from_json = rows((scratch / "j").read_text())
    text, _ = ladder("--from", scratch / "j", "--csv")
    from_csv = list(csv.DictReader(io.StringIO(text)))
    assert len(from_json) == len(from_csv) == 2 * len(CPU + GPU)
    for a, b in zip(from_json, from_csv):
        assert list(a) == list(b)
        for key, value in a.items():
            assert b[key] == ("" if value is None else value) if not isinstance(value, (int, float)) else float(b[key]) == value
        assert a["note"].startswith("needs a GPU (") == (a["verdict"] == "not run") == (a["rung"] in GPU)


def test_from_reads_back_what_json_printed(ladder, scratch):
    out, _ = ladder("-n", "33,2^22", "-t", "f32", "--json", "--repeat", 1)
    (scratch / "j").write_text(out)
    assert ladder("--from", scratch / "j", "--json")[0] == out
    table, _ = ladder("--from", scratch / "j")
    assert "f32, n = 33" in table and "f32, n = 2^22" in table and "not given" in table


def sample(ladder, **change):
    """A run's rows as a GPU would have given them."""
    got = rows(ladder("-n", "2^22", "--json", "--repeat", 1)[0])
    for i, r in enumerate(got):
        r.update(verdict="right", note="", value=r["exact"], grid=8192, passes=2, runs=21, ms=1.0 / (i + 1), ms_min=0.9 / (i + 1),
                 ms_max=1.1, gbs=16.8 * (i + 1), share=0.01, over_cpu=1.0, over_before=1.0, gpu=GPU_NAME, peak_gbs=936.096)
    got[5].update(change)
    return got


def write(path, got):
    path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in got))
    return path


@pytest.mark.parametrize("change, words", [({"verdict": "wrong", "value": 17.0}, "WRONG"),
                                           ({"verdict": "broken", "note": "illegal address", "ms": None, "gbs": None}, "FAILED: illegal")])
def test_a_wrong_rung_is_red_and_fails(ladder, scratch, change, words):
    path = write(scratch / "j", sample(ladder, **change))
    table, _ = ladder("--from", path, code=FAILED)
    assert words in table and f"{GPU_NAME}, memory peak 936 GB/s" in table and "\x1b" not in table
    ladder("--from", path, "--json", code=FAILED)
    ours, theirs = terminal()
    p = subprocess.Popen([BIN / "reducectl-ladder", "--from", path], stdout=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(ours)
    assert p.wait() == FAILED
    red = [line for line in shown.decode().splitlines() if line.startswith("\x1b[31m")]
    assert len(red) == 1 and red[0].startswith("\x1b[31matomic-block") and words in red[0] and "\x1b[0m" in red[0]


def test_plot_is_a_picture_of_every_rung(ladder, scratch):
    path = write(scratch / "j", sample(ladder))
    _, err = ladder("--from", path, "--plot", scratch / "p.svg")
    assert err == ""
    text = "".join(ET.parse(scratch / "p.svg").getroot().itertext())
    assert all(rung in text for rung in CPU + GPU)
    assert GPU_NAME in text and "2^22" in text and "memory peak" in text and "GB/s" in text


def test_plot_is_what_its_name_says(ladder, scratch):
    path = write(scratch / "j", sample(ladder))
    for name, magic in (("p.png", b"\x89PNG\r\n\x1a\n"), ("p.pdf", b"%PDF-"), ("p.svg", b"<?xml")):
        ladder("--from", path, "--plot", scratch / name)
        assert (scratch / name).read_bytes().startswith(magic), name
    for name in ("p.jpg", "p", ".png"):
        _, err = ladder("--from", path, "--plot", name, code=USAGE)
        assert "FILE.svg, FILE.png or FILE.pdf" in err and not (scratch / name).exists()


def test_explain_prints_the_page(ladder):
    for rung in CPU + GPU:
        page = ladder("--explain", rung)[0]
        assert "The idea" in page or page.startswith(f"// {rung}: "), rung
    assert "unroll2, unroll4, unroll8: each block takes" in ladder("--explain", "unroll8")[0]
    assert "__syncthreads();" in ladder("--explain", "unroll8")[0]
    assert "--list" in ladder("--explain", "unroll9", code=USAGE)[1]


def test_plot_without_gnuplot_names_the_package(ladder, scratch):
    path = write(scratch / "j", sample(ladder))
    _, err = ladder("--from", path, "--plot", scratch / "p.svg", code=FAILED, env={"PATH": str(scratch)})
    assert "gnuplot-nox" in err and not (scratch / "p.svg").exists()


def test_plot_into_no_folder_fails(ladder, scratch):
    path = write(scratch / "j", sample(ladder))
    assert "No such file" in ladder("--from", path, "--plot", scratch / "no/p.svg", code=FAILED)[1]


@pytest.mark.parametrize("text, what", [
    ("", "the file is empty"), ("{}\n", "line 1"), ("[1,2]\n", "line 1"), ("not json\n", "line 1"),
    (lambda line: line + line[:-20] + "\n", "line 2"), (lambda line: line.replace('"n":', '"m":'), "line 1"),
    (lambda line: line.replace('"right"', '"fine"'), "line 1"), (lambda line: line.replace('"i32"', '"' + "x" * 80 + '"'), "line 1"),
    (lambda line: line.replace('"block":512', '"n":512'), "line 1"), (lambda line: line[:-1] + "x\n", "line 1"),
    (lambda line: line.replace('"block":512', '"block":-5'), "line 1"),
    (lambda line: line.replace('"block":512', '"block":99999999999999999999'), "line 1")])
def test_from_refuses_what_json_did_not_print(ladder, scratch, text, what):
    if callable(text):
        text = text(json.dumps(sample(ladder)[0], separators=(",", ":")) + "\n")
    (scratch / "j").write_text(text)
    out, err = ladder("--from", scratch / "j", code=FAILED)
    assert out == "" and what in err


def test_from_needs_a_file(ladder, scratch):
    assert "No such file" in ladder("--from", scratch / "none", code=FAILED)[1]


@pytest.mark.parametrize("args, what", [
    (["--rungs", "fastest"], "'fastest' does not match any rung"), (["--rungs", "unroll8,"], "--rungs"), (["-n", "0"], "--n '0'"),
    (["-n", "2^35"], "2^34"), (["-n", "3^4"], "3^4"), (["-n", "2^20*2"], "2^20*2"), (["-n", "5-6"], "5-6"), (["-n", ""], "--n"),
    (["-n", "1-18446744073709551615"], "--n"), (["-n", ",".join(["1"] * 33)], "1 to 32 words"), (["--block", "100"], "--block '100'"),
    (["--block", "2048"], "2048"), (["--finish", "never"], "not one of relaunch, atomic, host"), (["-t", "f64"], "not one of i32, f32"),
    (["--repeat", "0"], "from 1 to 1000"), (["--repeat", "2x"], "2x"), (["--device", "-1"], "--device"), (["--json", "--csv"], "exclude each other"),
    (["--check", "--json"], "--check"), (["--fast"], "--fast"), (["-x"], "-x"), (["file"], "'file'"), (["--plot"], "--plot needs a value")])
def test_wrong_usage(ladder, args, what):
    out, err = ladder(*args, code=USAGE)
    assert out == "" and what in err
    assert all(line.startswith("reducectl: ") for line in err.splitlines())


def test_a_device_that_is_not_there_is_an_error(ladder):
    assert "device 7" in ladder("--device", 7, "-n", 1, code=FAILED)[1]


def test_help_names_every_option(ladder):
    out, _ = ladder("--help")
    for option in "--n --block --rungs --finish --dtype --repeat --device --check --json --csv --plot --explain --from --list".split():
        assert option in out
    assert ladder("--version")[0].startswith("reducectl-ladder ")


def test_a_daemon_without_gpu_changes_nothing(ladder, shared):
    out, _ = ladder("-n", 10, "--rungs", "cpu-sequential", "--json", env={"REDUCED_URL": shared.url})
    assert rows(out)[0]["verdict"] == "right"


def test_missing_program(ladder, scratch):
    alone = shutil.copy(BIN / "reducectl", scratch / "reducectl")
    _, err = ladder("--list", program=alone, env={"PATH": str(scratch)}, code=FAILED)
    assert err == "reducectl: ladder: reducectl-ladder: No such file or directory\n"
    os.symlink(BIN / "reducectl-ladder", scratch / "reducectl-ladder")
    assert "cpu-sequential" in ladder("--list", program=alone)[0]
