"""The Python package of client/python with the libreduce under test; `package` gives it a daemon."""
import os
import sys

import pytest

from conftest import LIB, ROOT

os.environ["REDUCED_LIBRARY"] = str(LIB / "libreduce.so")
PACKAGE = ROOT / "client/python"
sys.path.insert(0, str(PACKAGE))
sys.dont_write_bytecode = True

import reduced  # noqa: E402
from reduced import _client  # noqa: E402


@pytest.fixture(scope="module")
def package(shared):
    """The module `reduced`, whose calls go to the shared daemon."""
    with reduced.Client(shared.url, autostart=False) as client:
        _client._default, os.environ["REDUCED_URL"] = client, shared.url
        yield reduced
        _client._default = None
        del os.environ["REDUCED_URL"]
