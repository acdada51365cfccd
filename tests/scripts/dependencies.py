"""A configuration uses an optional dependency only if the compiler finds its headers."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Tools and packages as they are installed without their headers.
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.99'\n"
MPI = '#!/bin/sh\ncase "$*" in *version*) echo "mpic++: Open MPI 4.1.4 (Language: C++)" ;; *) echo -I/absent ;; esac\n'
PACKAGE = "Name: {0}\nDescription: {0}\nVersion: 1.0\nLibs: -L/absent\nCflags: -I/absent\n"


# Without the folders that a user adds to the compiler's.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")}


def has_header(name):
    compiled = subprocess.run(["c++", "-xc++", "-E", "-"], input=f"#if !__has_include(<{name}>)\n#error\n#endif\n",
                              env=ENVIRONMENT, text=True, capture_output=True, check=False)
    return compiled.returncode == 0


@unittest.skipUnless(shutil.which("meson") and shutil.which("c++"), "needs meson and c++")
class Dependencies(unittest.TestCase):
    def configure(self, *options):
        """The sources and arguments of all targets, or the error of a configuration that fails."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            for name, text in {"bin/nvcc": NVCC, "bin/mpic++": MPI, "openblas.pc": PACKAGE.format("openblas"),
                               "ompi-cxx.pc": PACKAGE.format("ompi-cxx"),
                               "pybind11.pc": PACKAGE.format("pybind11")}.items():
                (place / name).parent.mkdir(exist_ok=True)
                (place / name).write_text(text)
                (place / name).chmod(0o755)
            paths = {"PATH": f"{place}/bin:{os.environ['PATH']}", "PKG_CONFIG_PATH": folder}
            setup = subprocess.run(["meson", "setup", place / "build", ROOT, "-Dtests=disabled", "-Dunity=off", *options],
                                   env=ENVIRONMENT | paths, text=True, capture_output=True, check=False)
            if setup.returncode != 0:
                return setup.stdout[-1000:]
            return (place / "build/meson-info/intro-targets.json").read_text()

    def test_packages_without_headers_are_not_used(self):
        targets = self.configure()
        for header, trace in {"mpi.h": "peers/mpi_all_reduce.cpp", "cblas.h": "-DRINGLET_BENCH_OPENBLAS",
                              "cuda_runtime.h": "cuda/backend.cpp", "pybind11/pybind11.h": "_ringlet"}.items():
            self.assertTrue((trace in targets) == has_header(header), header)
        self.assertTrue("cuda/absent.cpp" in targets or has_header("cuda_runtime.h"))

    @unittest.skipIf(has_header("cuda_runtime.h"), "the compiler finds CUDA's headers by itself")
    def test_a_required_one_is_an_error(self):
        self.assertIn("header 'cuda_runtime.h' not found", self.configure("-Dbench=disabled", "-Dcuda=enabled"))


if __name__ == "__main__":
    unittest.main()
