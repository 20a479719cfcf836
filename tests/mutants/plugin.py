"""Which code each test reaches: a plugin of pytest (`-p reached`), with programs that are linked with reached.c.

It writes $REDUCED_REACHED_OUT as JSON: for each test its seconds, and the offsets that it reached in each module. A daemon that
several tests share counts for each of them with what it did meanwhile."""
import json
import os
import pathlib
import time

import numpy as np
import pytest

MAPS = pathlib.Path(os.environ["REDUCED_REACHED"])
seen = {}


def clear():
    for p in MAPS.iterdir():
        np.memmap(p, np.uint8, "r+")[:] = 0


def read():
    """The offsets of each module that ran since clear()."""
    maps = {p.name: np.flatnonzero(np.memmap(p, np.uint8, "r")).tolist() for p in MAPS.iterdir()}
    return {name: offsets for name, offsets in maps.items() if offsets}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    clear()
    begin = time.monotonic()
    yield
    seen[item.nodeid] = {"seconds": time.monotonic() - begin, "reached": read()}


def pytest_sessionfinish():
    pathlib.Path(os.environ["REDUCED_REACHED_OUT"]).write_text(json.dumps(seen))
