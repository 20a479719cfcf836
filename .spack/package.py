# A recipe for Spack: copy it to <repository>/packages/reduced/package.py
from spack.package import depends_on, variant, version

try:  # Spack 1 has the build systems in its repository of packages
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    from spack.package import MakefilePackage


class Reduced(MakefilePackage):
    """Exact reductions of arrays for every process of a machine, on a GPU or the CPU: a daemon, a C library and a command line."""

    homepage = "https://github.com/reduced/reduced"
    git = "https://github.com/reduced/reduced.git"

    version("0.2.0", branch="main")

    variant("cuda", default=False, description="build the CUDA engine")
    variant("hdf5", default=True, description="reducectl reads HDF5 and netCDF-4")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python", type="build")
    depends_on("nng@1")
    depends_on("mbedtls")
    depends_on("libuv")
    depends_on("inih")
    depends_on("ncurses")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("jansson")
    depends_on("hdf5", when="+hdf5")
    depends_on("cuda@12:", when="+cuda")

    def settings(self):
        chosen = [f"PREFIX={self.prefix}", "SYSTEMD=no", f"CUDA={'yes' if '+cuda' in self.spec else 'no'}"]
        chosen.append(f"HDF5={'yes' if '+hdf5' in self.spec else 'no'}")
        if "+cuda" in self.spec:
            chosen.append("CUDA_ARCHS=all")
            chosen.append(f"NVCC={self.spec['cuda'].prefix.bin.nvcc}")
        return chosen

    def build(self, spec, prefix):
        self.module.make("all", *self.settings())

    def install(self, spec, prefix):
        self.module.make("install", *self.settings())
