# reduced: build, test, install. `make help` lists the targets and the knobs.
#
# Objects go to build/<variant>/, one folder per set of flags; build/bin/ always leads to the default build.

# ---- knobs (make NAME=value) ----
CUDA       ?= auto#             auto|yes|no: compile the CUDA engine; auto: where nvcc is, and a GPU answers or CUDA_ARCHS is given
CUDA_ARCHS ?= auto#             auto|all|90 120: architectures of kernels; auto: of the GPUs that answer, else all
SYSTEMD    ?= auto#             auto|yes|no: tell systemd when ready (libsystemd)
CURSES     ?= auto#             auto|yes|no: reducectl top on a full screen (ncurses)
ZLIB       ?= auto#             auto|yes|no: reducectl reads gzip streams and deflated .npz (zlib)
ZSTD       ?= auto#             auto|yes|no: reducectl reads zstd streams (libzstd)
JANSSON    ?= auto#             auto|yes|no: reducectl reads safetensors (jansson)
HDF5       ?= auto#             auto|yes|no: reducectl reads HDF5 and netCDF-4 (libhdf5)
SANITIZE   ?=#                  address,undefined|thread
DEBUG      ?= 0#                1: for a debugger, in a folder of its own: -Og, checks of libc, patterns in fresh variables
PORTABLE   ?= 0#                1: link all but glibc statically, leave libsystemd and libhdf5 out
LINE_INFO  ?= yes#              no: CUDA code without lines for profilers, and so without the absolute paths of its sources
COMPRESS   ?= yes#              no: CUDA code is larger, and compiled in less time
PARTS      ?= yes#              no: a unit of kernels is compiled whole: less processor time, but fewer compilers at once
WERROR     ?= 0#                1: warnings are errors (CI)
V          ?= 0#                1: show the commands
PREFIX     ?= /usr/local#       where install puts things and the daemon and the units look for them
LIBDIR     ?= $(PREFIX)/lib
DESTDIR    ?=#                  install below this folder (packagers)
MINUTES    ?= 1#                 of processor time that `make fuzz` gives each fuzzer
SECONDS    ?= 60#               how long `make soak` runs
EACH       ?= 5#                seconds that `make hostile` gives each attack
CLIENTS    ?=#                  10000: `make soak` kills this number of clients, and nothing else
DAEMONS    ?=#                  1000: ... of daemons
SHORT      ?=#                  1: `make test-distros` in Debian 13 alone, without the wheel
KILL       ?=#                  1: `make soak` kills the daemon every few seconds
SHARE      ?= 1#                0.25: the clients of `make soak` work a quarter of the time, so that others can use the machine
STATE      ?=#                  a file to which `make soak` adds its run; a page of all runs is written beside it
SIMT_ARCH  ?= 90#               compute capability, 75 or 90, whose code `make test-kernels` runs without a GPU
SIMT_EVERY ?= 11#               one of this number of check_engine's comparisons, a prime number
PYTHON     ?= /usr/bin/python3# Debian's, which has the packages that `make deps` installs
CLANG      ?= clang#            builds the fuzzers
CCCL       ?=#                  folder of the headers of another CCCL than the toolkit's, for CUB as a peer in the benchmarks

VERSION := 0.2.0
comma   := ,

# What `make deps` installs, by purpose; .docs/install.md says why each. What is needed, and what adds something: the latter is left
# out where a distribution lacks it.
DEPS_NEED  := gcc g++ make pkg-config libnng-dev libuv1-dev libinih-dev libmbedtls-dev
DEPS_BUILD := libsystemd-dev libncurses-dev zlib1g-dev libzstd-dev libjansson-dev libhdf5-dev
DEPS_TEST  := libcmocka-dev python3-pytest python3-prometheus-client python3-h5py libpython3.*-testsuite clang clang-format libclang-rt-dev openssl systemd procps man-db shellcheck gnuplot-nox abigail-tools
DEPS_DEMO  := python3 python3-numpy proj-data
# Two MPIs, Fortran, Dask and xarray, 200 MB in a minute: with `make deps test` only; without them their tests skip.
DEPS_REACH := libopenmpi-dev openmpi-bin libmpich-dev mpich gfortran python3-mpi4py python3-dask python3-xarray
# For `make deps deb` and `make deps test-deb`, and for `make deps docs` only.
DEPS_DEB   := debhelper dh-python lintian debootstrap autopkgtest git xz-utils
DEPS_DOCS  := pandoc mandoc
# For `make deps test-aarch64` only, which lets dpkg know the architecture arm64
DEPS_ARM64 := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user $(addsuffix :arm64,libnng-dev libuv1-dev libinih-dev libmbedtls-dev libncurses-dev zlib1g-dev libzstd-dev libjansson-dev libcmocka-dev)
# What comes from PyPI goes into environments: for wheels, their tests, the reference.
DEPS_PYPI  := python3-venv
# Those of the tests are not for who wants to see it work, or to use it.
DEPS       := $(DEPS_BUILD) $(DEPS_DEMO) $(if $(filter-out deps,$(MAKECMDGOALS)),$(if $(filter-out deps all demo install dist wheel,$(MAKECMDGOALS)),$(DEPS_TEST)),$(DEPS_TEST)) $(if $(filter test,$(MAKECMDGOALS)),$(DEPS_REACH)) $(if $(filter deb test-deb piuparts,$(MAKECMDGOALS)),$(DEPS_DEB)) $(if $(filter piuparts,$(MAKECMDGOALS)),piuparts) $(if $(filter test-page,$(MAKECMDGOALS)),chromium) $(if $(filter test-aarch64,$(MAKECMDGOALS)),$(DEPS_ARM64)) $(if $(filter test-container,$(MAKECMDGOALS)),buildah debootstrap git) $(if $(filter test-distros test-dist,$(MAKECMDGOALS)),debootstrap git) $(if $(filter docs,$(MAKECMDGOALS)),$(DEPS_DOCS)) $(if $(filter docs wheel test-wheel dist test-dist test-python test-numpy-suite python-docs,$(MAKECMDGOALS)),$(DEPS_PYPI))

MAKEFLAGS += --no-builtin-rules
# Use every core unless the caller said -j. (GNU make 4.3 hides -j from makefiles, so look at its command line.)
ifeq ($(shell printf '%s\n' "$$MAKEFLAGS" | cat - /proc/$$PPID/cmdline | tr '\0 ' '\n\n' | grep -cE '^(-j|--jobs)'),0)
  MAKEFLAGS += -j$(shell nproc)
endif

ifneq ($(filter deps,$(MAKECMDGOALS)),)
# `make deps test`: install first, then let a fresh make look at what is there now.
.NOTPARALLEL:
REST := $(filter-out deps,$(MAKECMDGOALS))
.PHONY: deps $(REST)
deps:
	@$(if $(filter test-aarch64,$(MAKECMDGOALS)),DPKG_ARCH=arm64) .ci/deps $(DEPS_NEED) -- $(foreach p,$(DEPS),'$p')
	@$(if $(filter test test-page,$(MAKECMDGOALS)),tests/promtool)
$(REST): deps
	@$(MAKE) --no-print-directory $@
else

# ---- what is there ----
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
ifneq ($(filter-out auto yes no,$(CUDA)),)
  $(error CUDA must be auto, yes or no, not '$(CUDA)')
endif
ifeq ($(CUDA)$(NVCC),yes)
  $(error CUDA=yes needs nvcc, which is neither in /usr/local/cuda/bin nor in PATH; NVCC=/path/to/nvcc names one)
endif
# The machine's GPUs are asked once: makes that this one starts get the answer.
architectures = $(shell kernels/cuda/architectures '$(NVCC)' $(1))
NO_CUDA :=
ifeq ($(CUDA)$(NVCC),auto)
  NO_CUDA := no nvcc
else ifeq ($(CUDA_ARCHS)$(filter no,$(CUDA)),auto)
  FOUND := $(call architectures,auto)
  ifeq ($(CUDA)$(filter -,$(FOUND)),auto-)
    NO_CUDA := $(wordlist 2,99,$(FOUND))
  else
    override CUDA_ARCHS := $(if $(filter -,$(FOUND)),all,$(FOUND))
  endif
endif
ifeq ($(CUDA),auto)
  override CUDA := $(if $(NO_CUDA),no,yes)
endif
ifeq ($(CUDA)$(CUDA_ARCHS),yesall)
  override CUDA_ARCHS := $(call architectures,all)
endif
export CUDA_ARCHS
$(foreach knob,SYSTEMD CURSES ZLIB ZSTD JANSSON HDF5,$(if $(filter-out auto yes no,$($(knob))),$(error $(knob) must be auto, yes or no, not '$($(knob))')))
ifneq ($(filter-out address$(comma)undefined thread,$(SANITIZE)),)
  $(error SANITIZE must be 'address,undefined' or 'thread', not '$(SANITIZE)')
endif
# What is looked for is used; a portable build leaves out what cannot be linked statically.
define look_for
ifeq ($$($(1)),auto)
  override $(1) := $$(if $$(filter 1$(1),$$(PORTABLE)SYSTEMD $$(PORTABLE)HDF5),no,$$(shell pkg-config --exists $(2) 2>/dev/null && echo yes || echo no))
endif
endef
$(foreach k,SYSTEMD:libsystemd CURSES:ncursesw ZLIB:zlib ZSTD:libzstd JANSSON:jansson HDF5:hdf5,$(eval $(call look_for,$(firstword $(subst :, ,$k)),$(lastword $(subst :, ,$k)))))

# What $(CC) makes code for, as x86_64-linux-gnu or aarch64-linux-gnu.
MACHINE := $(shell $(CC) -dumpmachine)

VARIANT := $(if $(filter yes,$(CUDA)),cuda,cpu)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))$(if $(filter 1,$(DEBUG)),-debug)$(if $(filter 1,$(PORTABLE)),-portable)
B       ?= build/$(VARIANT)
Q       := $(if $(filter 1,$(V)),,@)

# ---- flags ----
# No fast-math and no contraction: the arithmetic of PROTOCOL.md is the arithmetic of the binary.
FP       := -ffp-contract=off -fno-fast-math
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
# In variables without a value a sanitizer finds more than a pattern, which would hide them from it.
HARD     := -fno-omit-frame-pointer -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS $(if $(SANITIZE),,-ftrivial-auto-var-init=pattern)
OPT      := $(if $(filter 1,$(DEBUG)),-Og -g3 $(HARD),$(if $(SANITIZE),-O1 -fno-omit-frame-pointer -g1,-O2 -g))
# Undefined behaviour ends a program with SIGILL, of which AddressSanitizer shows the line. A message for each check would be 7 MB of
# data with relocations in every program: a third of the time of a short process.
TRAP     := -fsanitize-undefined-trap-on-error
OPT_SIMD := $(if $(SANITIZE)$(filter 1,$(DEBUG)),,-O3)
CPPFLAGS += -I. -D_GNU_SOURCE -DREDUCED_VERSION='"$(VERSION)"' -DRK_WITH_CUDA=$(if $(filter yes,$(CUDA)),1,0) -DRD_WITH_SYSTEMD=$(if $(filter yes,$(SYSTEMD)),1,0) \
            -DCTL_WITH_ZLIB=$(if $(filter yes,$(ZLIB)),1,0) -DCTL_WITH_ZSTD=$(if $(filter yes,$(ZSTD)),1,0) -DCTL_WITH_JANSSON=$(if $(filter yes,$(JANSSON)),1,0)
CFLAGS   += -std=c11 $(OPT) $(WARN) $(FP) -fPIC -fvisibility=hidden -pthread -fstack-protector-strong \
            $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined) $(if $(findstring undefined,$(SANITIZE)),$(TRAP)) $(if $(filter 1,$(WERROR)),-Werror)
LDFLAGS  += -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(filter 1,$(PORTABLE)),-static-libgcc) -Wl,-z,relro,-z,now
static    = $(if $(filter 1,$(PORTABLE)),-Wl$(comma)-Bstatic $(1) -Wl$(comma)-Bdynamic,$(1))
LIBS_NNG := $(call static,-lnng $(if $(filter 1,$(PORTABLE)),-lmbedtls -lmbedx509 -lmbedcrypto)) -lm
LIBS_TLS := $(call static,-lnng -lmbedtls -lmbedx509 -lmbedcrypto) -lm
# libuv's archive, by its older or its newer name
STATIC_UV := $(if $(filter /%,$(shell $(CC) -print-file-name=libuv_a.a)),uv_a,uv)
LIBS_UV  := $(call static,$(if $(filter 1,$(PORTABLE)),-l$(STATIC_UV),-luv) -linih) -ldl
LIBS_SD  := $(if $(filter yes,$(SYSTEMD)),-lsystemd)
LIBS_FILES := $(if $(filter yes,$(ZLIB)),-lz) $(if $(filter yes,$(ZSTD)),-lzstd) $(if $(filter yes,$(JANSSON)),-ljansson)
LIBS_CTL := $(call static,$(if $(filter yes,$(CURSES)),-lncursesw -ltinfo) $(LIBS_FILES))
LIBS_HDF5 := $(if $(filter yes,$(HDF5)),$(shell pkg-config --libs hdf5))
HDF5_STATIC := $(if $(LIBS_HDF5),-Wl$(comma)-Bstatic $(LIBS_HDF5) -lsz -laec -lz -Wl$(comma)-Bdynamic -ldl)

# Of the last word, for NVCC may be "ccache nvcc"
CUDA_HOME  := $(abspath $(dir $(shell command -v $(lastword $(NVCC)) 2>/dev/null))..)
GENCODE    := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
              $(foreach a,$(lastword $(CUDA_ARCHS)),-gencode arch=compute_$(a),code=compute_$(a))
# Code compressed for size takes a driver of 550 or later, which CUDA 12 does not need otherwise, and CUDA 13 does.
COMPRESSED := $(if $(filter yes,$(CUDA)),$(if $(shell $(NVCC) --version | grep -E 'release (1[3-9]|[2-9][0-9])\.'),--compress-mode=$(if $(filter no,$(COMPRESS)),none,size)))
NVCCFLAGS  += -std=c++17 -O3 $(if $(filter yes,$(LINE_INFO)),-lineinfo) $(COMPRESSED) -fmad=false -ftz=false -prec-div=true --threads 0 $(GENCODE) \
              -Xcompiler "-fPIC -fno-threadsafe-statics -Wall -Wextra -Wno-unused-parameter" $(if $(filter 1,$(WERROR)),-Werror all-warnings)
LIBS_CUDA  := $(if $(filter yes,$(CUDA)),-L$(CUDA_HOME)/lib64 -lcudart_static -lrt -ldl -lm)

# ---- sources: a file belongs to its folder's part; nothing is listed by hand ----
PROTO_C  := $(wildcard proto/*.c)
KERNEL_C := $(filter-out kernels/engine/none.c kernels/cpu/simd.c,$(wildcard kernels/exact/*.c kernels/engine/*.c kernels/cpu/*.c kernels/cpu/*/*.c kernels/cpu/*/*/*.c))
KERNEL_CU := $(if $(filter yes,$(CUDA)),$(filter-out kernels/cuda/stream/%,$(wildcard kernels/cuda/*/*.cu kernels/cuda/*/*/*.cu)))
STREAM_CU := $(if $(filter yes,$(CUDA)),$(wildcard kernels/cuda/stream/*.cu))
# A unit with `#define PARTS(X) X(A) X(B)` is compiled once for each part, as if it were x.A.cu and x.B.cu, which are not there. The
# list may go on in further lines. A part takes a second for its headers, so few cores are better off with whole units.
CU_PARTS := $(if $(and $(KERNEL_CU),$(filter yes,$(PARTS))),$(shell awk '/^.define PARTS.X./ { list = 1 } list { list = /\\$$/; f = FILENAME; sub(/cu$$/, "", f); \
              while (match($$0, /X\([A-Za-z0-9_]+\)/)) { print f substr($$0, RSTART + 2, RLENGTH - 3) ".cu"; $$0 = substr($$0, RSTART + RLENGTH) } }' $(KERNEL_CU)))
# Units without a kernel are plain C++: nvcc takes 1.8 s for what g++ takes 0.4 s.
HOST_CU   := $(if $(KERNEL_CU),$(shell grep -LE '__global__|include "kernels/cuda/pass/.*cuh"' $(filter kernels/cuda/launch/% kernels/cuda/runtime/% kernels/cuda/device/%,$(KERNEL_CU)) $(STREAM_CU)))
in_parts  = $(foreach f,$(1),$(or $(filter $(f:.cu=).%,$(CU_PARTS)),$(f)))
DAEMON_C := $(wildcard daemon/*.c daemon/*/*.c)
CLIENT_C := $(wildcard client/*.c)
CTL_C    := $(filter-out client/ctl/top/top_$(if $(filter yes,$(CURSES)),none,ncurses).c client/ctl/hdf5/%,$(wildcard client/ctl/*.c client/ctl/*/*.c))
HDF5_C   := $(if $(filter yes,$(HDF5)),$(wildcard client/ctl/hdf5/*.c))
LADDER_C := $(filter-out $(if $(filter yes,$(CUDA)),kernels/ladder/no_gpu.c),$(wildcard kernels/ladder/*.c))
LADDER_CU := $(if $(filter yes,$(CUDA)),$(wildcard kernels/ladder/*.cu))

obj       = $(patsubst %,$(B)/%.o,$(1))
PROTO_O  := $(call obj,$(PROTO_C))
# The CPU loops are one source, compiled once per instruction set and chosen at run time. ThreadSanitizer's programs get one of them
# under the names of all, and do not watch it: the loops have no threads, and kernels/cpu/threads/pieces.c reports what they read.
# AddressSanitizer's run on this machine only, so those of AVX-512 are left out where it has none.
NO_SIMD  := $(if $(filter thread,$(SANITIZE)),avx2 avx512,$(if $(SANITIZE),$(shell grep -qw avx512f /proc/cpuinfo || echo avx512)))
SIMDS    := $(if $(filter x86_64%,$(MACHINE)),$(filter-out $(NO_SIMD),baseline avx2 avx512),neon)
SIMD_O   := $(foreach s,$(SIMDS),$(B)/kernels/cpu/simd_$(s).o)
$(B)/kernels/cpu/processor.c.o: CPPFLAGS += $(if $(filter x86_64%,$(MACHINE)),$(NO_SIMD:%=-Drk_simd_%=rk_simd_baseline))
KERNEL_O := $(call obj,$(KERNEL_C) $(call in_parts,$(KERNEL_CU)) $(if $(filter no,$(CUDA)),kernels/engine/none.c)) $(if $(wildcard kernels/cpu/simd.c),$(SIMD_O))
DAEMON_O := $(call obj,$(DAEMON_C)) $(B)/daemon/telemetry/page.c.o
# What states are, and reducing without an engine, on threads of the caller: libreduce has it, too.
STATE_O  := $(call obj,$(wildcard kernels/exact/*.c kernels/cpu/keys/*.c) $(addprefix kernels/,cpu/processor.c cpu/stateless_lines.c cpu/lines.c cpu/column_lines.c cpu/gathered.c cpu/pair_lines.c cpu/pair_moments.c cpu/run.c cpu/loops/sums/near.c cpu/order/best.c cpu/order/bins.c cpu/order/ranked.c cpu/order/ranking.c cpu/order/reader.c cpu/order/sample.c cpu/order/rank_slots.c cpu/order/short_lines.c cpu/threads/cores.c cpu/threads/crowd.c cpu/threads/here.c cpu/threads/parts.c cpu/threads/pieces.c cpu/threads/room.c engine/clock.c engine/task.c)) $(SIMD_O)
CLIENT_O := $(call obj,$(CLIENT_C))
CTL_O    := $(call obj,$(CTL_C))
HDF5_O   := $(call obj,$(HDF5_C))
LADDER_O := $(call obj,$(LADDER_C) $(LADDER_CU)) $(B)/kernels/ladder/pages.o
# Kernels that launch kernels are relocatable device code, which takes a link of its own.
NESTED_O := $(call obj,$(filter kernels/ladder/nested%,$(LADDER_CU)))

UNIT     := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
# Those that stand in for functions of libc or of a part, or have arguments, are programs of their own, and the others one program.
UNIT_APART := test_client_wire test_ladder test_program test_progress test_rd_wire test_routes
UNIT_ONE := $(filter-out $(UNIT_APART),$(UNIT))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: ladder routes man-pages fortran format lint check hostile mutants defences all deps demo test test-unit test-gpu test-aarch64 test-page soak restarts fuzz bench test-kernels deb test-deb test-container test-distros piuparts duckdb-extension test-duckdb docs install uninstall check-headers gpu-tools bench-tools unit-tests fuzz-targets fuzz-replay fuzz-kit fault-tools faults clean help alone say

# The ladder's kernels take a minute of compiling, so with CUDA its program is built where it is used: to be tested or installed.
LADDER   := $(B)/bin/reducectl-ladder
PROGRAMS := $(addprefix $(B)/bin/,reduced reducectl $(if $(HDF5_C),reducectl-hdf5)) $(if $(filter no,$(CUDA)),$(LADDER))
ladder: $(LADDER) ## what `reducectl ladder` runs; without CUDA it is always built
all: say $(PROGRAMS) $(B)/lib/libreduce.so $(B)/lib/libreduce.a $(if $(filter yes,$(CUDA)),$(B)/lib/libreduce-cuda.so) build/bin client/python/reduced/_abi.py ## build everything (default)

alone:
	@$(if $(NO_CUDA),echo "CPU engine alone: $(NO_CUDA).$(if $(NVCC), CUDA=yes builds the kernels for all GPUs$(comma) CUDA_ARCHS=90 for one kind (minutes).)")
say: alone
	@echo "CUDA=$(CUDA)$(if $(filter yes,$(CUDA)), ($(NVCC); sm $(CUDA_ARCHS))) SYSTEMD=$(SYSTEMD) CURSES=$(CURSES)$(if $(SANITIZE), SANITIZE=$(SANITIZE))$(if $(filter 1,$(DEBUG)), DEBUG=1) -> $(B)"

# build/bin and build/lib lead to the default build: without sanitizers, DEBUG and PORTABLE
.PHONY: build/bin
build/bin:
	@$(if $(SANITIZE)$(filter 1,$(PORTABLE) $(DEBUG))$(filter-out build/$(VARIANT),$(B)),:,mkdir -p build && ln -sfn $(VARIANT)/bin build/bin && ln -sfn $(VARIANT)/lib build/lib)

# The first line of a recipe that makes a file: what is done, with what
begin = @mkdir -p $(@D)$(if $(Q), && printf '  %-5s %s\n' $(1) '$(2)')

# A change of flags rebuilds: these files change when they do. Kernels compile for minutes, so they have a file of their own
# and see no flag that they do not need. Each has the flags of all objects, so it takes them here: what is added for some targets
# below would hold for what these targets need, too.
# A unit's headers, not its kernels, are a third of what nvcc takes: without the special functions of C++17's <cmath> 0.4 s of 5.
NVCC_ALL := $(NVCC) -I. -D_GNU_SOURCE -DRK_WITH_CUDA=1 -D_GLIBCXX_BITS_SPECFUN_H $(if $(filter no,$(PARTS)),-DRK_ALL_PARTS) $(NVCCFLAGS)
$(B)/flags: FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
$(B)/nvcc-flags: FLAGS := $(NVCC_ALL)
$(B)/cccl-flags: FLAGS := $(CCCL)
$(B)/unit-names: FLAGS := $(UNIT_ONE)
$(B)/flags $(B)/nvcc-flags $(B)/cccl-flags $(B)/unit-names: force
	@mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@
.PHONY: force

# Where operations and layouts are switched on, the compiler lists what a new one still lacks.
$(PROTO_O) $(KERNEL_O) $(call obj,$(wildcard client/state*.c)): CFLAGS += -Wswitch-enum

$(B)/%.c.o: %.c $(B)/flags
	$(call begin,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

SIMD_FLAGS_baseline :=
SIMD_FLAGS_neon     :=
SIMD_FLAGS_avx2     := -mavx2 -mfma -mf16c -mbmi2 -mtune=haswell
SIMD_FLAGS_avx512   := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512 -mtune=icelake-server
$(SIMD_O): private CFLAGS := $(if $(filter thread,$(SANITIZE)),$(subst -O1,-O2,$(filter-out -fsanitize=thread,$(CFLAGS))),$(CFLAGS))
$(SIMD_O): $(B)/kernels/cpu/simd_%.o: kernels/cpu/simd.c $(B)/flags
	$(call begin,CC,$< ($*))
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(OPT_SIMD) $(SIMD_FLAGS_$*) -DRK_SIMD=$* -MMD -MP -c $< -o $@

$(B)/%.cu.o: %.cu $(B)/nvcc-flags
	$(call begin,NVCC,$<)
	$(Q)$(NVCC_ALL) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

# Where nvcc is Debian's, its headers are where g++ looks: -isystem /usr/include would hide those of C++.
HOST_CXX := $(CXX) -x c++ -std=c++17 -I. $(if $(filter /usr,$(CUDA_HOME)),,-isystem $(CUDA_HOME)/include) -include cuda_runtime.h -D_GNU_SOURCE -DRK_WITH_CUDA=1 -O2 -g $(FP) -fPIC -fno-threadsafe-statics \
            -Wall -Wextra -Wno-unused-parameter $(if $(filter 1,$(WERROR)),-Werror)
$(call obj,$(HOST_CU)): $(B)/%.cu.o: %.cu $(B)/nvcc-flags
	$(call begin,CXX,$<)
	$(Q)$(HOST_CXX) -MMD -MP -c $< -o $@

define part_rule
$(B)/$(1).o: $(basename $(basename $(1))).cu $(B)/nvcc-flags
	@mkdir -p $$(@D)
	@$$(if $$(Q),echo "  NVCC  $$< ($(subst .,,$(suffix $(basename $(1)))))")
	$$(Q)$$(NVCC_ALL) -DRK_PART=$(subst .,,$(suffix $(basename $(1)))) -MMD -MP -MF $$(@:.o=.d) -c $$< -o $$@
endef
$(foreach p,$(CU_PARTS),$(eval $(call part_rule,$(p))))

$(B)/bin/reduced: $(DAEMON_O) $(KERNEL_O) $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_CUDA) $(LIBS_TLS) $(LIBS_UV) $(LIBS_SD) -o $@

$(B)/lib/libreduce.a: $(CLIENT_O) $(STATE_O) $(PROTO_O)
	$(call begin,AR,$@)
	$(Q)rm -f $@; $(AR) rcs $@ $^

# Always with the shared nng: Debian's static one is not position-independent. Portable programs link libreduce.a; a portable
# libreduce.so has the shared libraries beside it, and looks for what these need there, too (an RPATH, not a RUNPATH).
BESIDE := $(if $(filter 1,$(PORTABLE)),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN')
# It stays loaded after a dlclose (nodelete): a thread of kernels/cpu/threads/parts.c may still be on its way out then.
$(B)/lib/libreduce.so: $(CLIENT_O) $(STATE_O) $(PROTO_O) client/libreduce.map
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libreduce.so.0 -Wl,-z,nodelete -Wl,--version-script=client/libreduce.map \
	  $(CLIENT_O) $(STATE_O) $(PROTO_O) $(BESIDE) -lnng -lm -o $@.$(VERSION)
	$(if $(BESIDE),$(Q)rm -f $(@D)/libnng.* $(@D)/libmbed*; cp $$(ldd $@.$(VERSION) | awk '/libnng|libmbed/ { print $$3 }') $(@D))
	$(Q)ln -sf libreduce.so.$(VERSION) $@.0; ln -sf libreduce.so.$(VERSION) $@

# The kernels for the caller's stream: all of them, the spec's checks of libreduce, nothing of a client or an engine.
LAUNCH_O := $(call obj,$(filter-out %/backend.cu %/outcome.cu %/slot_pool.cu %/submitter.cu %/completer.cu %/device_memory.cu %/slot.cu %/keyed_task.cu,$(call in_parts,$(KERNEL_CU))) kernels/exact/order.c kernels/exact/edges.c)
STREAM_C := $(wildcard client/cuda/*.c) client/error.c client/names.c client/quantiles.c client/sized.c client/spec.c
STREAM_O := $(call obj,$(STREAM_C) $(STREAM_CU) $(wildcard kernels/exact/*.c)) $(PROTO_O)
$(B)/lib/libreduce-cuda.so: $(STREAM_O) $(LAUNCH_O) client/cuda/libreduce-cuda.map
	$(call begin,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libreduce-cuda.so.0 -Wl,-z,nodelete -Wl,--version-script=client/cuda/libreduce-cuda.map \
	  $(sort $(filter %.o,$^)) $(LIBS_CUDA) -lm -o $@.$(VERSION)
	$(Q)ln -sf libreduce-cuda.so.$(VERSION) $@.0; ln -sf libreduce-cuda.so.$(VERSION) $@

$(B)/bin/reducectl: $(CTL_O) $(B)/lib/libreduce.a
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_NNG) $(LIBS_CTL) -o $@

# The pages of the rungs as text, for `reducectl ladder --explain`
PAGES := $(filter-out %/gpu.cu,$(wildcard kernels/ladder/*.cu)) $(wildcard kernels/ladder/cpu_*.h)
$(B)/kernels/ladder/pages.c: $(PAGES) Makefile
	@mkdir -p $(@D)
	$(Q){ echo '#include "kernels/ladder/ladder.h"'; echo 'const ladder_page ladder_pages[] = {'; \
	  for f in $(PAGES); do n=$${f##*/}; echo "{\"$${n%.*}\","; sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $$f; echo '},'; done; echo '{NULL, NULL}};'; } >$@
$(B)/kernels/ladder/pages.o: $(B)/kernels/ladder/pages.c kernels/ladder/ladder.h $(B)/flags
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# The page over http, as it is and gzip'd. /ladder.json is made of a stored run and of the rungs' texts.
PAGE_FILES := index.html page.css page.js
RUN_FILE   := kernels/ladder/h100.json
json_text   = sed -e 's/[\\"]/\\&/g' -e 's/\t/\\t/g' -e 's/$$/\\n/' $(1) | tr -d '\n'
$(B)/daemon/telemetry/ladder.json: $(PAGES) $(RUN_FILE) Makefile
	@mkdir -p $(@D)
	$(Q){ printf '{"run":['; paste -sd, $(RUN_FILE); printf '],"pages":{'; \
	  c=; for f in $(PAGES); do n=$${f##*/}; printf '%s"%s":"' "$$c" "$${n%.*}"; $(call json_text,$$f); printf '"'; c=,; done; printf '}}\n'; } >$@
$(B)/daemon/telemetry/page.c: $(addprefix daemon/telemetry/page/,$(PAGE_FILES)) $(B)/daemon/telemetry/ladder.json Makefile
	$(Q){ echo '#include "daemon/telemetry/page.h"'; n=0; for f in $(filter-out Makefile,$^); do n=$$((n + 1)); \
	  echo "static const unsigned char file$$n[] = {"; od -An -v -tx1 $$f | sed 's/ \(..\)/0x\1,/g'; echo '};'; \
	  echo "static const unsigned char small$$n[] = {"; gzip -9nc $$f | od -An -v -tx1 | sed 's/ \(..\)/0x\1,/g'; echo '};'; done; \
	  echo '#define FILE(n, path, type) {path, type, file##n, sizeof file##n, small##n, sizeof small##n}'; \
	  echo 'const rd_page_file rd_page_files[RD_PAGE_FILES] = {FILE(1, "/", "text/html; charset=utf-8"),'; \
	  echo 'FILE(2, "/page.css", "text/css; charset=utf-8"), FILE(3, "/page.js", "text/javascript; charset=utf-8"),'; \
	  echo 'FILE(4, "/ladder.json", "application/json")};'; } >$@
$(B)/daemon/telemetry/page.c.o: $(B)/daemon/telemetry/page.c daemon/telemetry/page.h $(B)/flags
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# reducectl runs it for HDF5 and netCDF-4: a program of its own, so that reducectl starts without libhdf5, and outlives what a
# hostile file does to that. Static if that links: the shared libhdf5 loads curl, OpenSSL and 30 others for a driver that is not
# used, which takes longer than the rest of the program.
CFLAGS_HDF5 := $(if $(filter yes,$(HDF5)),$(patsubst -I%,-isystem %,$(shell pkg-config --cflags hdf5)))
$(HDF5_O) $(patsubst %,$(B)/headers/%.ok,$(wildcard client/ctl/hdf5/*.h)): CPPFLAGS += $(CFLAGS_HDF5)
$(B)/bin/reducectl-hdf5: $(HDF5_O) $(B)/client/names.c.o $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(HDF5_STATIC) -lm -o $@ 2>/dev/null || $(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_HDF5) -lm -o $@

$(NESTED_O): NVCC_ALL += -rdc=true
$(B)/kernels/ladder/device_link.o: $(NESTED_O)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(NVCC) $(GENCODE) -Xcompiler -fPIC -dlink $^ -lcudadevrt -o $@

# `reducectl ladder` runs it: a program of its own, so that reducectl needs no CUDA. CUB wants a bit of C++'s library.
LADDER_LINK := $(LADDER_O) $(if $(LADDER_CU),$(B)/kernels/ladder/device_link.o $(KERNEL_O) $(PROTO_O))
$(B)/bin/reducectl-ladder: $(LADDER_LINK)
	$(call begin,LINK,$@)
	$(Q)$(if $(LADDER_CU),$(CXX) -static-libstdc++ -static-libgcc,$(CC) $(CFLAGS)) $(LDFLAGS) $^ \
	  $(if $(LADDER_CU),-L$(CUDA_HOME)/lib64 -lcudadevrt) $(LIBS_CUDA) -lm -o $@

# A unit test may reach into every part but main(); the ladder's stands in for its GPU.
UNIT_PARTS := $(filter-out %/main.c.o,$(DAEMON_O) $(CTL_O)) $(KERNEL_O) $(CLIENT_O) $(PROTO_O)
$(B)/tests/units: $(UNIT_ONE:%=$(B)/tests/unit/%.c.o) $(B)/tests/unit/main.c.o $(B)/client/ctl/hdf5/confine.c.o $(UNIT_PARTS)
$(filter-out %/test_ladder,$(UNIT_APART:%=$(B)/tests/%)): $(B)/tests/%: $(B)/tests/unit/%.c.o $(UNIT_PARTS)
$(B)/tests/test_ladder: $(B)/tests/unit/test_ladder.c.o $(call obj,$(filter-out %/main.c %/no_gpu.c,$(LADDER_C)))
$(B)/tests/units $(UNIT_APART:%=$(B)/tests/%):
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) -lcmocka $(LIBS_CUDA) $(LIBS_TLS) $(LIBS_UV) $(LIBS_SD) $(LIBS_CTL) -o $@

$(UNIT_ONE:%=$(B)/tests/%): $(B)/tests/units
	@ln -sf units $@
# Each file's main() gets the file's name, and a prototype.
$(UNIT_ONE:%=$(B)/tests/unit/%.c.o): CPPFLAGS += '-Dmain=$(*F)_main(void); int $(*F)_main'
$(B)/tests/unit/main.c.o: CPPFLAGS += '-DUNIT_FILES(X)=$(patsubst %,X(%),$(UNIT_ONE))'
$(B)/tests/unit/main.c.o: $(B)/unit-names

# ---- the CUDA kernels as C++ (tests/simt), with sanitizers: they run without a GPU. All else is the build's, as nvcc made it ----
SIMT       := $(if $(filter yes,$(CUDA)),$(if $(filter x86_64%,$(MACHINE)),$(if $(SANITIZE),,yes)))
SIMT_B     := $(B)/simt-$(SIMT_ARCH)
SIMT_SAN   := -fsanitize=address,undefined -fno-sanitize-recover=undefined $(TRAP) -fno-sanitize=shift-base -fno-omit-frame-pointer
SIMT_FLAGS := -Itests/simt -I. -isystem $(CUDA_HOME)/include -D_GNU_SOURCE -DRK_WITH_CUDA=1 -DSIMT_ARCH=$(SIMT_ARCH) $(FP) -O0 -g1 -ftrivial-auto-var-init=pattern -pthread $(SIMT_SAN)
SIMT_CU    := $(filter kernels/cuda/launch/% kernels/cuda/ops/%,$(KERNEL_CU))
SIMT_O     := $(patsubst %,$(SIMT_B)/%.o,$(SIMT_CU) tests/simt/simt.cu tests/faults/cudart.c)

# What stands in for the device is no code of ours to check, and a third of the time where it is not optimised.
$(SIMT_B)/tests/simt/simt.cu.o: private SIMT_FLAGS := $(subst -O0,-O2,$(filter-out $(SIMT_SAN),$(SIMT_FLAGS)))
# nvcc warns of the same sources
$(SIMT_B)/%.cu.o: %.cu $(B)/flags
	$(call begin,SIMT,$<)
	$(Q)$(CXX) -x c++ -std=c++17 -include tests/simt/simt.cuh $(SIMT_FLAGS) -fno-strict-aliasing -w -MMD -MP -c $< -o $@

$(SIMT_B)/%.c.o: %.c $(B)/flags
	$(call begin,SIMT,$<)
	$(Q)$(CC) -std=c11 $(SIMT_FLAGS) -MMD -MP -c $< -o $@

$(SIMT_B)/check_engine: $(SIMT_O) $(B)/tests/gpu/check_engine.c.o $(call obj,$(KERNEL_C) $(filter-out $(SIMT_CU),$(KERNEL_CU))) $(SIMD_O) $(PROTO_O)
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(CXX) -pthread $(SIMT_SAN) $^ -lm -ldl -o $@

$(SIMT_B)/check_stream $(SIMT_B)/check_keyed $(SIMT_B)/stream_errors: $(SIMT_B)/%: $(SIMT_O) $(patsubst %,$(SIMT_B)/%.o,$(STREAM_CU)) $(B)/tests/gpu/%.c.o $(call obj,$(STREAM_C) $(KERNEL_C) $(filter-out $(SIMT_CU),$(KERNEL_CU))) $(SIMD_O) $(PROTO_O)
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(CXX) -pthread $(SIMT_SAN) $^ -lm -ldl -o $@

$(SIMT_B)/select: $(patsubst %,$(SIMT_B)/%.o,$(filter %/select_lines.cu %/select_long.cu %/select_rows.cu %/cuda_device.cu,$(KERNEL_CU)) tests/gpu/select.cu tests/simt/simt.cu tests/faults/cudart.c) $(PROTO_O)
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(CXX) -pthread $(SIMT_SAN) $^ -lm -ldl -o $@

# ... and which of them the launch code chooses, without running any. Their names are looked up by address.
SIMT_LAUNCH := $(filter kernels/cuda/launch/% kernels/cuda/ops/% kernels/cuda/device/%,$(KERNEL_CU))
$(SIMT_B)/routes: $(patsubst %,$(SIMT_B)/%.o,$(SIMT_LAUNCH) tests/simt/routes.cu tests/faults/cudart.c) $(call obj,kernels/exact/order.c kernels/exact/edges.c) $(PROTO_O)
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(CXX) -no-pie -pthread $(SIMT_SAN) $^ -lm -ldl -o $@

routes: $(SIMT_B)/routes ## write tests/golden/routes.txt and .docs/routes.md anew, after a change of how launches are chosen (CUDA=yes)
	$(Q)ASAN_OPTIONS=detect_leaks=0 $< >tests/golden/routes.txt && tests/lint/routes --write

test-kernels: $(SIMT_B)/check_engine ## the CUDA kernels without a GPU: as C++ with sanitizers, their threads in three orders
	@for o in forward backward 1; do for w in --quick "--quick --only sum --integers" "--quick --only sum --long"; do \
	  echo "== threads $$o, $$w"; SIMT_ORDER=$$o $< $$w --every $(SIMT_EVERY) || exit 1; done; done

-include $(shell find $(B) -name '*.d' 2>/dev/null)
%.d: ; # written beside the objects, never remade

unit-tests: $(UNIT:%=$(B)/tests/%) $(if $(SIMT),$(SIMT_B)/check_engine $(SIMT_B)/check_stream $(SIMT_B)/check_keyed $(SIMT_B)/stream_errors $(SIMT_B)/select $(SIMT_B)/routes) $(B)/tests/reduced-device $(B)/tests/driver/libcuda.so.1 $(B)/tests/req0

# A client of nng's own REQ socket
$(B)/tests/req0: $(B)/tests/nng/req0.c.o $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_NNG) -o $@

# A daemon whose device is made of memory, for tests of data on a device
$(B)/tests/reduced-device: $(B)/tests/device/device.c.o $(DAEMON_O) $(call obj,$(KERNEL_C)) $(SIMD_O) $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_TLS) $(LIBS_UV) $(LIBS_SD) -o $@

# ... and a driver that says how warm it is
$(B)/tests/driver/libcuda.so.1: tests/device/nvml.c $(B)/flags
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -std=c11 -O1 $(WARN) -fPIC -shared $< -o $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libnvidia-ml.so.1

# ---- faults: daemon and libreduce with calls that fail on cue (tests/faults/calls.def) ----
FAULT_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,$(shell awk -F, '/^    X/ {print $$2}' tests/faults/calls.def))
fault-tools: $(B)/faults/reduced $(B)/faults/client $(if $(filter yes,$(CUDA)),$(B)/faults/cuda $(B)/faults/devices $(B)/faults/reduced-devices)

# A runtime without a device, for a static one would have its own calls wrapped as well
FAULT_CUDART := $(if $(filter yes,$(CUDA)),$(B)/tests/faults/cudart.c.o)

$(B)/faults/reduced: $(DAEMON_O) $(KERNEL_O) $(PROTO_O) $(B)/tests/faults/wrap.c.o $(FAULT_CUDART)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(FAULT_WRAP) $^ $(LIBS_TLS) $(LIBS_UV) $(LIBS_SD) -o $@

$(B)/faults/client: $(B)/tests/faults/client.c.o $(B)/tests/faults/wrap.c.o $(CLIENT_O) $(STATE_O) $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(FAULT_WRAP) $^ $(LIBS_NNG) $(LIBS_UV) -o $@

$(B)/faults/cuda: $(B)/tests/faults/cuda.c.o $(FAULT_CUDART) $(B)/tests/faults/wrap.c.o $(KERNEL_O) $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(FAULT_WRAP) $^ $(LIBS_NNG) $(LIBS_UV) -o $@

# The CUDA engine's runtime on several devices made of memory, with kernels that compute: in a walk, and in a daemon
DEVICES_O := $(call obj,$(KERNEL_C) $(wildcard kernels/cuda/device/*.cu kernels/cuda/runtime/*.cu) tests/device/kernels.cu tests/faults/cudart.c tests/faults/wrap.c) $(SIMD_O) $(PROTO_O)
$(B)/faults/devices: $(B)/tests/faults/devices.c.o $(DEVICES_O)
	@mkdir -p $(@D)
	@$(if $(Q),echo "  LINK  $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_NNG) $(LIBS_UV) -o $@

$(B)/faults/reduced-devices: $(B)/tests/device/cues.c.o $(DAEMON_O) $(DEVICES_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_TLS) $(LIBS_UV) $(LIBS_SD) -o $@
$(B)/tests/faults/cuda.c.o $(B)/tests/faults/devices.c.o $(B)/tests/faults/cudart.c.o: CPPFLAGS += -isystem $(CUDA_HOME)/include

faults: all fault-tools ## walk every call that can fail, and show how each failure ended
	@REDUCED_BIN_DIR=$(abspath $(B))/bin $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/test_faults.py

# ---- fuzzing: clang's libFuzzer on the pure parts; replay_* run the corpus without clang ----
FUZZ     := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY   := $(patsubst $(B)/fuzz/fuzz_%,$(B)/fuzz/replay_%,$(FUZZ))
FUZZ_SRC := $(PROTO_C) $(wildcard kernels/exact/*.c) kernels/engine/task.c kernels/engine/clock.c $(filter-out %/simd.c %/backend.c,$(wildcard kernels/cpu/*.c kernels/cpu/keys/*.c kernels/cpu/order/*.c kernels/cpu/threads/*.c kernels/cpu/loops/*/*.c)) $(addprefix client/,state.c state_words.c message.c packed.c collective.c block.c alone.c ask.c keys_here.c accumulators.c quantiles.c tiling.c spec.c sized.c error.c program.c) daemon/base/access.c $(wildcard daemon/base/config*.c) daemon/base/log.c daemon/base/paths.c daemon/base/user_name.c daemon/net/frame_check.c daemon/net/http_request.c daemon/state/kept_record.c client/names.c client/ctl/formats/npy.c client/ctl/text/parse_text.c client/ctl/text/integers.c client/ctl/text/parse_scalar.c client/ctl/text/half.c client/ctl/text/wide.c client/ctl/text/decimal.c client/ctl/text/powers.c client/ctl/text/screen_text.c client/ctl/text/shown.c client/ctl/top/metrics.c \
            $(filter-out client/ctl/formats/npy.c,$(wildcard client/ctl/formats/*.c)) tests/fuzz/uninterrupted.c
FUZZ_LADDER := $(filter-out kernels/ladder/main.c,$(wildcard kernels/ladder/*.c))
fuzz-targets: $(FUZZ)
fuzz-replay: $(REPLAY)

$(B)/fuzz/fuzz_records: $(FUZZ_LADDER:%=$(B)/fuzz/objects/%.o)
$(B)/fuzz/replay_records: $(call obj,$(FUZZ_LADDER))

# clang's objects, with the sanitizers: every fuzzer links them all.
FUZZ_FLAGS := -std=c11 -O1 -g -Wall -Wextra $(FP) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
$(B)/fuzz/objects/%.o: % $(B)/flags
	$(call begin,CLANG,$<)
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_FLAGS) -MMD -MP -c $< -o $@

# Nothing but glibc's libraries are shared, so that they can be carried to a machine with more cores.
$(B)/fuzz/fuzz_%: $(B)/fuzz/objects/tests/fuzz/fuzz_%.c.o $(FUZZ_SRC:%=$(B)/fuzz/objects/%.o) $(SIMD_O)
	$(call begin,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer $^ -static-libstdc++ -static-libgcc -Wl,-Bstatic -linih $(LIBS_FILES) -Wl,-Bdynamic -lm -o $@

$(B)/fuzz/replay_%: $(B)/tests/fuzz/replay.c.o $(B)/tests/fuzz/fuzz_%.c.o $(call obj,$(FUZZ_SRC)) $(SIMD_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -linih $(LIBS_FILES) -lm -o $@

fuzz: $(FUZZ) ## run each fuzzer for MINUTES of processor time; inputs and findings go to build/fuzz-corpus/ [STATE=tests/fuzz/runs.tsv]
	@$(PYTHON) tests/fuzz/run --minutes $(MINUTES) --binaries $(B)/fuzz --inputs build/fuzz-corpus $(if $(STATE),--state $(STATE))

# Binaries, corpora and runner in a folder that is whole by itself: on another machine,  ./run --minutes 30
fuzz-kit: $(FUZZ)
	@rm -rf $(B)/fuzz-kit && mkdir -p $(B)/fuzz-kit
	$(Q)cp -r $(FUZZ) tests/fuzz/run tests/fuzz/corpus $(B)/fuzz-kit

# ---- each header compiles alone, the public one as C++ too ----
# reduce_mpi.h needs an MPI's compiler: tests/test_mpi.py compiles it.
HEADERS := $(filter-out client/reduce_mpi.h $(if $(filter no,$(HDF5)),client/ctl/hdf5/packing.h),$(wildcard proto/*.h kernels/*.h $(addsuffix /*.h,kernels/exact kernels/exact/families kernels/engine kernels/cpu kernels/cpu/* kernels/cpu/loops/* kernels/ladder) daemon/*.h daemon/*/*.h client/*.h client/cuda/*.h client/ctl/*.h client/ctl/*/*.h))
# A header that its own source includes first has compiled alone there, so `all` has checked it.
OWN := $(if $(filter check-headers,$(MAKECMDGOALS)),$(shell awk '/^.include/ { h = FILENAME; sub(/c$$/, "h", h); if ($$2 == "\"" h "\"") print h; nextfile }' \
         $(PROTO_C) $(KERNEL_C) $(DAEMON_C) $(CLIENT_C) $(CTL_C) $(HDF5_C) $(LADDER_C)))
HEADERS_OK := $(patsubst %,$(B)/headers/%.ok,$(filter-out $(OWN),$(HEADERS))) $(B)/headers/client/reduce.h.c++.ok
check-headers: all $(HEADERS_OK) ## each header that changed compiles alone
	@echo "$(words $(OWN) $(HEADERS_OK)) headers compile alone"
alone = $(Q)$(1) -Werror -fsyntax-only -MMD -MP -MF $(@:.ok=.d) -MT $@ -include $< /dev/null && touch $@
$(B)/headers/%.ok: % $(B)/flags
	@mkdir -p $(@D)
	$(call alone,$(CC) $(CPPFLAGS) -std=c11 $(WARN) -x c)
$(B)/headers/%.c++.ok: % $(B)/flags
	@mkdir -p $(@D)
	$(call alone,$(CXX) -I. -std=c++17 -Wall -Wextra -Wpedantic -x c++)

# ---- the contributor's desk ----
CLANG_FORMAT ?= clang-format
FORMATTED := $(shell find proto kernels daemon client tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | grep -v -e log2_table.h -e tests/abi/)
format: ## bring every C and CUDA file into the shape of .clang-format
	$(Q)$(CLANG_FORMAT) -i $(FORMATTED)

.PHONY: lint check
STAGES = @MAKE='$(MAKE)' $(PYTHON) tests/run B=$(B) CUDA=$(CUDA) WERROR=$(WERROR)
lint: all ## every lint of tests/lint, and each header alone
	$(STAGES) lint

check: all ladder ## before a commit, a minute: lints, unit tests, the main integration tests; `make test` is the gate
	$(STAGES) lint unit short

# One entry for each source, with the flags of this build. It has absolute paths, so git ignores it.
ENTRIES = import json, os, sys; \
  words = sys.stdin.read().split("\n")[:3]; \
  rows = [{"directory": os.getcwd(), "file": f, "command": words[2 if f.endswith("u") else f.endswith("simd.c")] + " -c " + f} for f in sys.argv[1:]]; \
  json.dump(rows, open("compile_commands.json", "w"), indent=1)
INDEXED = $(PROTO_C) $(KERNEL_C) kernels/cpu/simd.c $(DAEMON_C) $(CLIENT_C) $(CTL_C) $(LADDER_C) $(wildcard tests/*/*.c) $(KERNEL_CU) $(LADDER_CU)
PLAIN_CC = $(filter-out ccache %/ccache,$(CC)) $(CPPFLAGS) $(CFLAGS)
quote = '$(subst ','\'',$(1))'
compile_commands.json: force ## for clangd and clang-tidy: how each source is compiled, for this CUDA, SANITIZE, DEBUG
	@printf '%s\n' $(call quote,$(PLAIN_CC)) $(call quote,$(PLAIN_CC) $(SIMD_FLAGS_avx2) -DRK_SIMD=avx2) $(call quote,$(NVCC_ALL)) | \
	  $(PYTHON) -c '$(ENTRIES)' $(INDEXED)

# ---- run things ----
demo: all ## real data, real processes: watch it work (less than a minute)
	@$(PYTHON) tests/demo.py

test: all ladder ## everything: lints, unit, fuzz corpus, integration, sanitizers, install, systemd
	$(STAGES)

test-unit: unit-tests ## only the unit tests of this build
	@for t in $(UNIT:%=$(B)/tests/%); do echo "== $${t##*/}"; timeout 300 $$t || exit 1; done

# Plain programs that need a GPU to run but no other library, so that they can be carried to one.
GPU_TOOLS := $(if $(filter yes,$(CUDA)),$(B)/gpu/check_engine $(B)/gpu/check_stream $(B)/gpu/check_keyed $(B)/gpu/stream_errors $(B)/gpu/bench_kernels $(B)/gpu/select $(B)/gpu/device)
gpu-tools: $(GPU_TOOLS) $(B)/bench/host $(B)/bench/load $(B)/gpu/break.so

# Breaks a device of a daemon: see there
$(B)/gpu/break.so: tests/gpu/break.c $(B)/flags
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -shared $< -ldl -o $@

$(B)/gpu/check_engine: $(B)/tests/gpu/check_engine.c.o $(KERNEL_O) $(PROTO_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS_CUDA) -o $@

$(B)/gpu/check_stream $(B)/gpu/check_keyed $(B)/gpu/stream_errors: $(B)/gpu/%: $(B)/tests/gpu/%.c.o $(STREAM_O) $(KERNEL_O)
	$(call begin,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(sort $^) $(LIBS_CUDA) -lm -o $@
$(B)/tests/gpu/check_stream.c.o $(B)/tests/gpu/check_keyed.c.o $(B)/tests/gpu/stream_errors.c.o: private CPPFLAGS += -isystem $(CUDA_HOME)/include

# The example for reduce_device
$(B)/gpu/device: tests/gpu/device.c $(B)/lib/libreduce.a $(B)/flags
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -isystem $(CUDA_HOME)/include $(CFLAGS) -MMD -MP -MF $@.d -MT $@ $(LDFLAGS) $(filter %.c %.a,$^) \
	  $(LIBS_CUDA) $(LIBS_NNG) -o $@

$(B)/gpu/bench_kernels: $(call obj,$(wildcard tests/gpu/bench_*.cu) tests/gpu/cub_peer.cu) $(LAUNCH_O) $(PROTO_O)
$(B)/gpu/select: $(call obj,tests/gpu/select.cu) $(LAUNCH_O) $(PROTO_O)
$(B)/gpu/bench_kernels $(B)/gpu/select:
	$(call begin,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS_CUDA) -o $@

$(B)/tests/gpu/cub_peer.cu.o: private NVCC_ALL += $(if $(CCCL),-I$(CCCL))
$(B)/tests/gpu/cub_peer.cu.o: $(B)/cccl-flags

test-aarch64: all ## unit tests of an aarch64 build under qemu, and its answers beside this machine's
	@B=$(B) tests/aarch64

soak: all ## clients of every kind at once for SECONDS, killed and hostile ones among them; nothing may be left behind
	@REDUCED_BIN_DIR=$(B)/bin $(PYTHON) tests/soak.py --seconds $(SECONDS) --share $(SHARE) $(if $(STATE),--state $(STATE)) $(if $(filter 1,$(KILL)),--kill) $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(DAEMONS),--daemons $(DAEMONS))

restarts: all ## 16 clients in full flight while the daemon is restarted or killed each 2 s for two minutes; none may notice
	@RESTARTS=60 REDUCED_BIN_DIR=$(B)/bin $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/test_restart.py -k sixteen

# The second build is the first one's sanitizer twin. Its daemon keeps little of what was freed: the attacks' memory is measured.
HOSTILE = HOSTILE_SECONDS=$(EACH) HOSTILE_FLOOR=0.05 REDUCED_BIN_DIR=$(1)/bin $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/test_hostile.py
ASAN_B  = build/$(if $(filter yes,$(CUDA)),cuda,cpu)-address-undefined
test-page: all ## the live page in Debian's chromium, eight hours of it in minutes; Grafana's and Prometheus' files by promtool
	@PAGE_SECONDS=28800 REDUCED_BIN_DIR=$(B)/bin $(PYTHON) -m pytest -q -p no:cacheprovider tests/test_page.py tests/test_monitoring.py

hostile: all ## every attack of tests/hostile.py for EACH seconds beside an honest client, on a plain and on a sanitizer build; as root
	@$(call HOSTILE,$(B))
	@$(MAKE) --no-print-directory -s SANITIZE=address,undefined CUDA=$(CUDA) B=$(ASAN_B) all
	@ASAN_OPTIONS=quarantine_size_mb=8 $(call HOSTILE,$(ASAN_B))

mutants: ## change one place of the sources at a time and see whether a test notices; tests/mutants/run --help
	@$(PYTHON) tests/mutants/run

defences: ## remove each defence of daemon/THREATS.md once: the test that its row names must fail then; as root
	@$(PYTHON) tests/mutants/defences

test-gpu: all ladder gpu-tools ## on a GPU: CPU against CUDA bit for bit, compute-sanitizer, kernels beside CUB, the daemon
	@B=$(B) tests/gpu/run.sh

$(B)/bench/%: tests/bench/%.c $(B)/lib/libreduce.a $(B)/flags
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(filter %.c %.a,$^) $(LIBS_NNG) -o $@

# The CPU engine alone
$(B)/bench/bench_cpu: tests/bench/bench_cpu.c $(KERNEL_O) $(PROTO_O) $(B)/flags
	$(call begin,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) $(LIBS_CUDA) -lm -o $@

# cudaMemcpy and CUB in one process, as a peer
$(B)/bench/host_cuda: $(call obj,tests/bench/host_cuda.cu tests/gpu/cub_peer.cu)
	$(call begin,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LIBS_CUDA) -o $@

BENCH_TOOLS := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/*.c)) \
               $(if $(filter yes,$(CUDA)),$(B)/bench/host_cuda $(B)/gpu/bench_kernels)
bench-tools: $(BENCH_TOOLS)

bench: all ladder bench-tools ## measure kernels, host path, requests, processes and CPU sums beside their peers; figures to build/bench/
	@B=$(B) $(PYTHON) tests/bench/run.py

# ---- install ----
# Some pages are made, of the header and of the Python package's docstrings, before these lists are asked for.
MAN_MADE := build/man/made
$(MAN_MADE): client/fortran/generate $(wildcard client/fortran/*.f90) daemon/telemetry/dashboard.py client/man/generate client/man/libreduce.3 client/reduce.h client/reduce_cuda.h client/python/manual.py client/python/reduced/_abi.py $(wildcard client/python/reduced/*.py)
	$(call begin,MAN,build/man)
	$(Q)if command -v python3 >/dev/null; then \
	  python3 client/man/generate build/man/man3 && python3 client/python/manual.py >build/man/reduced-python.7 && \
	  python3 daemon/telemetry/dashboard.py >build/man/grafana-dashboard.json && python3 client/fortran/generate build/fortran && touch $@; \
	else echo "no python3: manual pages of the calls, Fortran's modules and Grafana's dashboard are left out"; fi
man-pages: $(MAN_MADE)
MAN = $(wildcard client/man/*.[1-9]) $(shell ls build/man/*.[1-9] build/man/man3/*.3 2>/dev/null)
# A call's page is a link to that of its group.
LINKS = $(shell sed -n 's/^\.\\" links://p' build/man/man3/*.3 2>/dev/null)
# Installed path of each file, for install and uninstall alike.
DEST_BIN   := $(PREFIX)/bin/reduced $(PREFIX)/bin/reducectl $(PREFIX)/bin/reducectl-ladder $(PREFIX)/bin/reducectl-hdf5
DEST_LIB   := $(addprefix $(LIBDIR)/,libreduce.a libreduce.so.$(VERSION) libreduce.so.0 libreduce.so $(addprefix pkgconfig/,libreduce.pc libreduce-states.pc) $(addprefix cmake/libreduce/libreduce-config,.cmake -version.cmake))
STREAM_LIB := $(if $(filter yes,$(CUDA)),$(B)/lib/libreduce-cuda.so.$(VERSION))
DEST_LIB   += $(if $(STREAM_LIB),$(addprefix $(LIBDIR)/,libreduce-cuda.so.$(VERSION) libreduce-cuda.so.0 libreduce-cuda.so) $(PREFIX)/include/reduce_cuda.h)
DEST_MAN    = $(foreach m,$(MAN),$(PREFIX)/share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m))) $(patsubst %,$(PREFIX)/share/man/man3/%.3,$(LINKS))
DEST_SYSD  := $(PREFIX)/lib/systemd/system/reduced.service $(PREFIX)/lib/systemd/user/reduced.service \
              $(PREFIX)/lib/systemd/system/reduced.socket $(PREFIX)/lib/systemd/user/reduced.socket \
              $(PREFIX)/lib/sysusers.d/reduced.conf
EXAMPLES   := $(wildcard client/examples/*)
MONITORING := $(wildcard daemon/telemetry/monitoring/*)
DEST_MODULE := $(PREFIX)/share/modulefiles/reduced/$(VERSION)
# systemd before 254 warns of a setting that it does not know.
UNKNOWN    := $(if $(shell pkg-config --max-version 253 libsystemd 2>/dev/null && echo old),-e /^FileDescriptorStorePreserve=/d)
DEST_OTHER := $(DEST_MODULE) $(PREFIX)/share/reduced/grafana-dashboard.json $(patsubst daemon/telemetry/monitoring/%,$(PREFIX)/share/reduced/%,$(MONITORING)) \
              $(addprefix $(PREFIX)/include/,reduce.h reduce_mpi.h reduce_mpi.f90 reduce_mpi_f08.f90) $(PREFIX)/share/bash-completion/completions/reducectl \
              $(PREFIX)/share/zsh/site-functions/_reducectl $(PREFIX)/share/fish/vendor_completions.d/reducectl.fish \
              $(patsubst client/%,$(PREFIX)/share/doc/libreduce/%,$(EXAMPLES))
fill        = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g'
# The prefix as pkg-config finds it from where libreduce.pc is, so that an installation may be moved.
UP          = $(shell realpath -m --relative-to='$(LIBDIR)/pkgconfig' '$(PREFIX)')
# The libraries' folder in the prefix, for the modulefile
LIB         = $(shell realpath -m --relative-to='$(PREFIX)' '$(LIBDIR)')
put         = install -D -m $(1) $(2) $(DESTDIR)$(3)

install: all ladder $(MAN_MADE) ## install to $(DESTDIR)$(PREFIX): programs, library, header, man pages, systemd units, completion
	@echo "  INSTALL $(DESTDIR)$(PREFIX)"
	@[ $(CUDA) = yes ] || [ ! -e /proc/driver/nvidia/version ] || echo "reduced: this machine has an NVIDIA driver, but CUDA was not built$(if $(NO_CUDA),: $(NO_CUDA))"
	$(Q)$(call put,755,$(B)/bin/reduced,$(PREFIX)/bin/reduced)
	$(Q)$(call put,755,$(B)/bin/reducectl,$(PREFIX)/bin/reducectl)
	$(Q)$(call put,755,$(B)/bin/reducectl-ladder,$(PREFIX)/bin/reducectl-ladder)
	$(if $(HDF5_C),$(Q)$(call put,755,$(B)/bin/reducectl-hdf5,$(PREFIX)/bin/reducectl-hdf5))
	$(Q)$(foreach h,reduce.h reduce_mpi.h,$(call put,644,client/$(h),$(PREFIX)/include/$(h)) &&) :
	$(Q)$(call put,644,$(B)/lib/libreduce.a,$(LIBDIR)/libreduce.a)
	$(Q)$(call put,755,$(B)/lib/libreduce.so.$(VERSION),$(LIBDIR)/libreduce.so.$(VERSION))
	$(Q)ln -sf libreduce.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libreduce.so.0
	$(Q)ln -sf libreduce.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libreduce.so
	$(if $(STREAM_LIB),$(Q)$(call put,644,client/reduce_cuda.h,$(PREFIX)/include/reduce_cuda.h) && $(call put,755,$(STREAM_LIB),$(LIBDIR)/$(notdir $(STREAM_LIB))) && \
	  for n in libreduce-cuda.so.0 libreduce-cuda.so; do ln -sf $(notdir $(STREAM_LIB)) $(DESTDIR)$(LIBDIR)/$$n || exit 1; done)
	$(Q)for f in pkgconfig/libreduce.pc pkgconfig/libreduce-states.pc cmake/libreduce/libreduce-config.cmake cmake/libreduce/libreduce-config-version.cmake; do \
	  n=$${f##*/}; $(fill) -e 's|@UP@|$(UP)|g' client/$$n.in >$(B)/$$n && $(call put,644,$(B)/$$n,$(LIBDIR)/)$$f || exit 1; done
	$(Q)$(foreach m,$(MAN),$(call put,644,$(m),$(PREFIX)/share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m))) &&) :
	$(Q)for p in $$(ls build/man/man3/*.3 2>/dev/null); do for n in $$(sed -n 's/^\.\\" links://p' $$p); do \
	  echo ".so man3/$${p##*/}" >$(DESTDIR)$(PREFIX)/share/man/man3/$$n.3 || exit 1; done; done
	$(Q)$(fill) $(UNKNOWN) systemd/reduced.service.in >$(B)/reduced.service
	$(Q)$(fill) $(UNKNOWN) systemd/reduced-user.service.in >$(B)/reduced-user.service
	$(Q)$(call put,644,$(B)/reduced.service,$(PREFIX)/lib/systemd/system/reduced.service)
	$(Q)$(call put,644,$(B)/reduced-user.service,$(PREFIX)/lib/systemd/user/reduced.service)
	$(Q)$(call put,644,systemd/reduced.socket,$(PREFIX)/lib/systemd/system/reduced.socket)
	$(Q)$(call put,644,systemd/reduced-user.socket,$(PREFIX)/lib/systemd/user/reduced.socket)
	$(Q)$(call put,644,systemd/reduced.sysusers,$(PREFIX)/lib/sysusers.d/reduced.conf)
	$(Q)$(fill) -e 's|@LIB@|$(LIB)|g' systemd/modulefile.in >$(B)/modulefile
	$(Q)$(call put,644,$(B)/modulefile,$(DEST_MODULE))
	$(Q)$(call put,644,client/ctl/reducectl.bash,$(PREFIX)/share/bash-completion/completions/reducectl)
	$(Q)$(call put,644,client/ctl/reducectl.zsh,$(PREFIX)/share/zsh/site-functions/_reducectl)
	$(Q)$(call put,644,client/ctl/reducectl.fish,$(PREFIX)/share/fish/vendor_completions.d/reducectl.fish)
	$(Q)[ ! -e $(MAN_MADE) ] || { $(call put,644,build/man/grafana-dashboard.json,$(PREFIX)/share/reduced/grafana-dashboard.json) && \
	  $(foreach m,reduce_mpi.f90 reduce_mpi_f08.f90,$(call put,644,build/fortran/$(m),$(PREFIX)/include/$(m)) &&) :; }
	$(Q)$(foreach f,$(MONITORING),$(call put,644,$(f),$(patsubst daemon/telemetry/monitoring/%,$(PREFIX)/share/reduced/%,$(f))) &&) :
	$(Q)$(foreach e,$(EXAMPLES),$(call put,644,$(e),$(patsubst client/%,$(PREFIX)/share/doc/libreduce/%,$(e))) &&) :

# Folders that are empty then go too, below the prefix.
DEST_ALL = $(DEST_BIN) $(DEST_LIB) $(DEST_MAN) $(DEST_SYSD) $(DEST_OTHER)
uninstall: $(MAN_MADE) ## remove what install installed
	$(Q)rm -f $(addprefix $(DESTDIR),$(DEST_ALL))
	$(Q)for d in $(sort $(dir $(addprefix $(DESTDIR),$(DEST_ALL)))); do \
	  while [ "$${d%/}" != "$(DESTDIR)$(PREFIX)" ] && rmdir "$$d" 2>/dev/null; do d=$${d%/*/}/; done; done

deb: ## Debian packages in build/deb/, with reduced-cuda where nvcc is
	$(Q).debian/build $(VERSION) $(CUDA)

test-deb: deb ## install, test, upgrade and remove them in a fresh Debian (root, network, ten minutes)
	$(Q).debian/check $(VERSION)

test-container: ## build the Containerfile's image on a fresh Debian and use it (root, network, five minutes)
	$(Q).container/check

test-distros: ## `make deps demo`, check and the wheel in fresh Debian 12 and 13 (root, network, an hour); SHORT=1: 13, without the wheel
	$(Q)tests/distros/run

piuparts: deb ## piuparts on them in a fresh Debian (root, network, three minutes)
	$(Q).debian/piuparts

# DuckDB's headers come with its source package from PyPI, and are not kept here.
DUCKDB := build/duckdb
duckdb-extension: $(B)/lib/libreduce.a ## exact aggregates for DuckDB: build/duckdb/reduced.duckdb_extension (network; client/duckdb/README.md)
	$(Q)client/duckdb/fetch $(DUCKDB)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -isystem $(DUCKDB)/include -shared -Wl,--gc-sections,--exclude-libs,ALL,-z,defs client/duckdb/exact.c \
	  $(B)/lib/libreduce.a -lm -o $(DUCKDB)/reduced.so
	$(Q)strip $(DUCKDB)/reduced.so
	$(Q)client/duckdb/footer.py $(DUCKDB)/reduced.so $(DUCKDB)/reduced.duckdb_extension $(VERSION) linux_$(if $(findstring aarch64,$(MACHINE)),arm64,amd64)

test-duckdb: duckdb-extension all ## the extension in PyPI's DuckDB, beside fractions (network, a minute)
	$(Q)REDUCECTL=$(abspath $(B))/bin/reducectl DUCKDB_EXTENSION=$(abspath $(DUCKDB))/reduced.duckdb_extension $(DUCKDB)/venv/bin/python -m pytest -q -p no:cacheprovider --confcutdir=tests/duckdb_extension tests/duckdb_extension/checks.py

docs: python-docs $(MAN_MADE) ## the documentation as static HTML in build/docs/, its links checked
	$(Q)tests/build/docs

fortran: ## Fortran's modules in build/fortran/, as `make install` installs them
	$(Q)python3 client/fortran/generate build/fortran

include client/python/python.mk

help: ## this list
	@echo "targets:"; sed -n 's/^\([a-z0-9_.-]*\):.*## \(.*\)/  \1\t\2/p' Makefile client/python/python.mk | expand -t 25
	@echo "knobs:"; sed -n 's/^\([A-Z0-9_]*\) *?= *\([^#]*\)#* *\(.*\)/  \1=\2\t\3/p' Makefile | expand -t 40

clean: ## remove build/
	rm -rf build

deps: ## install the Debian packages that building, testing and the demo need
endif
