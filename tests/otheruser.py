"""Run a function as another user, in a forked child: what the kernel then says about its connections is true.

    assert as_user(12345, 12345, lambda: reply_code(url)) == "AUTH"

A sanitizer's allocator does not survive a fork beside other threads: the child may find its lock taken, for ever. So files that
name as_user do not load libreduce, and tests/run starts them in a Python without a sanitizer. The daemon has its own.
"""
import json
import os
import traceback

import pytest

from conftest import LOADED

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def _become(uid, gid, groups):
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def as_user(uid, gid, call, groups=()):
    """What call() returns, by way of JSON; its exception fails the test."""
    assert not LOADED, "see above"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            _become(uid, gid, groups)
            os.write(write, json.dumps(call()).encode())
            code = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode()
    _, status = os.waitpid(pid, 0)
    assert status == 0, text
    return json.loads(text)
