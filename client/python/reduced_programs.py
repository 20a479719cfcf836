"""The commands `reduced`, `reducectl` and `reducectl-ladder` of the wheel: the programs beside the package, which they do not import."""
import os
import sys
from pathlib import Path


def _become(name):
    path = Path(__file__).parent / "reduced/bin" / name
    if not path.exists():
        sys.exit(f"{name} is not part of this installation")
    os.execv(path, [str(path), *sys.argv[1:]])


def reduced():
    _become("reduced")


def reducectl():
    _become("reducectl")


def ladder():
    _become("reducectl-ladder")
