"""reducectl --shard and --joined: any number of equal parts of any files gives the bits of --total."""
import numpy as np
import pytest

import gens
import oracle


@pytest.fixture
def files(scratch):
    """Files of any lengths, one of them empty; and their elements."""
    rng = np.random.default_rng(5)
    names, arrays = [], []
    for i, n in enumerate((1000, 3, 0, 517, 2048, 1)):
        bits = gens.full_range(rng, "f64", n)
        names.append(scratch / f"p{i}.npy")
        np.save(names[-1], bits.view("<f8"))
        arrays.append(bits)
    np.save(scratch / "f.npy", np.asfortranarray(arrays[0].view("<f8").reshape(10, 100)))
    return names, np.concatenate(arrays)


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("op", ["sum", "argmin", "var"])
def test_any_number_of_shards(ctl, shared, scratch, files, op, shards):
    names, bits = files
    states = []
    for i in range(shards):
        done = ctl(op, "--shard", f"{i}/{shards}", "--hex", *names, url=shared.url)
        assert done.returncode == 0, done.stderr
        states.append(scratch / f"s{i}")
        states[-1].write_bytes(done.stdout)
        first, last = len(bits) * i // shards, len(bits) * (i + 1) // shards
        assert done.stdout == oracle.state(oracle.Elements("f64", bits[first:last], first), op)
    merged = ctl(op, "--merge", "--raw", *states, url=shared.url).stdout
    assert merged == ctl(op, "--total", "--raw", *names, url=shared.url).stdout
    assert int.from_bytes(merged, "little") == oracle.reduce(op, "f64", bits)


def test_joined_takes_the_arguments_of_the_shards(ctl, shared, scratch, files):
    names, bits = files
    state = scratch / "s"
    arguments = ["--out", "f32", "--initial", "2.5", "--hex", *names]
    state.write_bytes(ctl("mean", "--shard", "0/1", *arguments, url=shared.url).stdout)
    assert ctl("mean", "--joined", state, *arguments, url=shared.url).stdout == ctl("mean", "--total", *arguments, url=shared.url).stdout


@pytest.mark.parametrize("index, count", [("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")])
def test_launchers(ctl, shared, files, index, count):
    names, _ = files
    env = {index: "2", count: "3"}
    assert ctl("sum", "--shard", "auto", *names, url=shared.url, env=env).stdout == ctl("sum", "--shard", "2/3", *names, url=shared.url).stdout


@pytest.mark.parametrize("arguments, code, text", [
    (["--shard", "3/3"], 2, b"is not I/N"), (["--shard", "x"], 2, b"is not I/N"), (["--shard", "-1/2"], 2, b"is not I/N"),
    (["--shard", "1/0"], 2, b"is not I/N"), (["--shard", "0/1", "--rows", "2"], 2, b"exclude --rows"), (["--shard", "0/1", "--merge"], 2, b"exclude"),
    (["--shard", "0/1", "--joined", "s"], 2, b"excludes --joined"), (["--shard", "0/1", "-"], 2, b"standard input"),
    (["--shard", "0/1", "--text"], 2, b"exclude"), (["--shard", "0/1", "--index-base", "1"], 2, b"exclude")])
def test_what_is_refused(ctl, shared, files, arguments, code, text):
    done = ctl("sum", *arguments, files[0][0], url=shared.url)
    assert done.returncode == code and text in done.stderr, done


def test_auto_needs_a_launcher(ctl, shared, files, monkeypatch):
    for name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    done = ctl("sum", "--shard", "auto", files[0][0], url=shared.url)
    assert done.returncode == 2 and b"no process number" in done.stderr


def test_what_cannot_be_cut(ctl, shared, scratch, files):
    """Elements that do not lie in the file as they are; places in Fortran order."""
    np.savez_compressed(scratch / "z.npz", x=np.arange(5.0))
    np.save(scratch / "big.npy", np.arange(5.0).astype(">f8"))
    for name in ("z.npz:x", "big.npy"):
        done = ctl("sum", "--shard", "0/2", scratch / name, url=shared.url)
        assert done.returncode == 1 and b"cannot be cut" in done.stderr, done
    assert b"C order" in ctl("argmax", "--shard", "0/2", scratch / "f.npy", files[0][0], url=shared.url).stderr
    assert ctl("sum", "--shard", "0/1", scratch / "f.npy", url=shared.url).stdout == ctl("sum", "--partial", scratch / "f.npy", url=shared.url).stdout
