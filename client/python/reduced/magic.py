"""%reducectl in notebooks: reducectl's commands, and the ladder's chart inline.

    %load_ext reduced
    %reducectl ladder --rungs 'cpu*'
    %reducectl stats m.npy
"""
from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ._lib import program


def run(line: str) -> tuple[str, str | None]:
    """What reducectl prints, and the ladder's chart as SVG if it drew one. Raises RuntimeError if it fails."""
    words = shlex.split(line)
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "chart.svg"
        if words[:1] == ["ladder"] and "--plot" not in words:
            words += ["--plot", str(chart)]
        done = subprocess.run([program("reducectl") or "reducectl", *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"reducectl left with {done.returncode}")
        return done.stdout, chart.read_text() if chart.exists() else None


def register(shell: Any) -> None:
    """Make %reducectl known to an IPython shell."""
    def reducectl(line: str) -> Any:
        text, chart = run(line)
        print(text, end="")
        if chart is None:
            return None
        from IPython import display
        image: Any = display.SVG
        return image(chart)
    shell.register_magic_function(reducectl, "line")
