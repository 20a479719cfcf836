"""hatchling's hook: build libreduce, `reduced` and `reducectl` with everything but glibc inside, and put them into the wheel.

`make wheel` sets $REDUCED_WHEEL_CUDA (yes: with the CUDA engine), $REDUCED_WHEEL_CC (the linker), $REDUCED_WHEEL_MAKE (variables of its
own command line) and $REDUCED_WHEEL_TAG (the platform that its glibc allows; linux_x86_64 without it)."""
import os
import shlex
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(os.environ.get("REDUCED_ROOT") or Path(__file__).resolve().parents[2])
PROGRAMS = ("reduced", "reducectl", "reducectl-ladder")


class BuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        subprocess.run([sys.executable, str(ROOT / "client/python/generate.py")], check=True)
        if self.target_name != "wheel" or version == "editable":
            return
        cuda = os.environ.get("REDUCED_WHEEL_CUDA", "no")
        folder = ROOT / "build" / ("cuda-portable" if cuda == "yes" else "cpu-portable")
        linker = os.environ.get("REDUCED_WHEEL_CC")
        make = os.environ.get("MAKE", "make")
        subprocess.run([make, "-s", f"-j{os.cpu_count()}", "-C", str(ROOT), "wheel-programs", f"CUDA={cuda}", "CUDA_ARCHS=all", "PORTABLE=1", "LINE_INFO=no",
                        *([f"WHEEL_CC={linker}"] if linker else []), *shlex.split(os.environ.get("REDUCED_WHEEL_MAKE", ""))], check=True, env={**os.environ, "MAKEFLAGS": ""})
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('REDUCED_WHEEL_TAG', 'linux_x86_64')}"
        build_data["force_include"] = {str(folder / "wheel" / name): f"reduced/bin/{name}" for name in (*PROGRAMS, "libreduce.so", *(["libreduce-cuda.so"] if cuda == "yes" else []))}
        stubs = folder / "wheel" / "stubs"
        stubs.mkdir(exist_ok=True)
        subprocess.run([sys.executable, str(ROOT / "client/python/stubs.py"), str(stubs)], check=True)
        build_data["force_include"].update({str(p): f"reduced/{p.name}" for p in stubs.glob("*.pyi")})
