"""The Python package of client/python with the libreduce under test; `package` gives it a daemon."""
import os
import sys

import pytest

from conftest import ROOT, libreduce_path

os.environ["REDUCED_LIBRARY"] = libreduce_path()
PACKAGE = ROOT / "client/python"
sys.path.insert(0, str(PACKAGE))
sys.dont_write_bytecode = True

import reduced  # noqa: E402
from reduced import _client  # noqa: E402


def by_default(url, **options):
    """The module `reduced`, whose calls go to the daemon at `url` while the generator waits."""
    with reduced.Client(url, autostart=False, **options) as client:
        _client._default, os.environ["REDUCED_URL"] = client, url
        yield reduced
        _client._default = None
        del os.environ["REDUCED_URL"]


@pytest.fixture(scope="module")
def package(shared):
    """The module `reduced`, whose calls go to the shared daemon."""
    yield from by_default(shared.url)


@pytest.fixture(scope="module", params=["daemon", "local"])
def both_ways(shared, request):
    """The same, and what it reduces in this process: for tests of values. They import it as `package`."""
    yield from by_default(shared.url, local=request.param == "local")
