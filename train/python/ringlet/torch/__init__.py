"""The backend "ringlet" of torch.distributed.

    import ringlet.torch
    torch.distributed.init_process_group("ringlet")  # or "cpu:ringlet,cuda:nccl"

PyTorch's C++ interface differs between its versions, so the backend is compiled for the installed one at the first
import, by $CXX (c++) against the headers and the library of the package that pip installed. The package in a build
folder has neither: `pkg-config ringlet` names them.
"""
import fcntl
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig

import torch
import torch.distributed

_FOLDER = pathlib.Path(__file__).resolve().parent
_KEPT = 4  # compiled modules, of the latest versions


def _pkg_config(*options):
    found = subprocess.run(["pkg-config", *options, "ringlet"], capture_output=True, text=True)
    if found.returncode:
        raise ImportError(f"ringlet.torch is compiled at its first import and needs pkg-config to find ringlet's "
                          f"library (set PKG_CONFIG_PATH): {found.stderr.strip()}")
    return found.stdout.strip()


@functools.cache
def _library():
    """The compiler's flags for ringlet's headers and library, and the library's folder."""
    package = _FOLDER.parent
    if (package / "include").is_dir():  # pip installed it
        libraries = sorted((package / "lib").glob("libringlet.so.*"))
        if len(libraries) != 1:
            raise ImportError(f"{package / 'lib'}: expected one libringlet.so, found {[one.name for one in libraries]}")
        library = libraries[0]
        return [f"-I{package / 'include'}", str(library), f"-Wl,-rpath,{library.parent}"], library.parent
    return shlex.split(_pkg_config("--cflags", "--libs")), pathlib.Path(_pkg_config("--variable=libdir"))


@functools.cache
def _command():
    """The compiler's command line but for the output; the sources come as one on standard input."""
    of_torch = pathlib.Path(torch.__file__).parent
    headers = [of_torch / "include", of_torch / "include/torch/csrc/api/include", sysconfig.get_path("include"),
               _FOLDER]
    return [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden",
            "-ffp-contract=off", "-Wno-psabi", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            *(f"-isystem{header}" for header in headers), "-x", "c++", "-", "-x", "none",
            # ringlet's gloo comes before PyTorch's: the first definition of a symbol is used.
            *_library()[0], "-Wl,--exclude-libs,ALL,--gc-sections,--strip-all",
            f"-L{of_torch / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python"]


def _build(module):
    print(f"ringlet.torch: compiling the backend for PyTorch {torch.__version__} (once, a minute or two)",
          file=sys.stderr, flush=True)
    built = module.with_suffix(f".{os.getpid()}")
    sources = "".join(f'#include "{source}"\n' for source in sorted(_FOLDER.glob("*.cpp")))
    made = subprocess.run([*_command(), "-o", str(built)], input=sources, text=True, capture_output=True)
    if made.returncode:
        built.unlink(missing_ok=True)
        raise ImportError(f"ringlet.torch could not be compiled:\n{made.stderr}")
    built.replace(module)
    for old in sorted(module.parent.glob("torch-*.so"), key=lambda file: file.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)


def _load():
    """The module of these sources, flags, library and PyTorch, from the user's cache."""
    version = hashlib.sha256(repr((torch.__version__, sys.version, _command())).encode())
    for source in sorted(_FOLDER.glob("*.[ch]*")):
        version.update(source.read_bytes())
    for library in sorted(_library()[1].glob("libringlet.*")):
        version.update(repr((library.name, library.stat().st_size, library.stat().st_mtime_ns)).encode())
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ringlet"
    cache.mkdir(parents=True, exist_ok=True)
    module = cache / f"torch-{version.hexdigest()[:16]}.so"
    if not module.exists():
        with open(cache / "torch.lock", "w") as lock:  # one rank of a host compiles
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not module.exists():
                _build(module)
    loader = importlib.machinery.ExtensionFileLoader("ringlet.torch._torch", str(module))
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(loaded)
    return loaded


_module = _load()


def _create(options, backend_options):
    if backend_options is not None:
        raise ValueError("the backend ringlet takes no pg_options")
    return _module.create(options.store, options.group_rank, options.group_size,
                          round(options.timeout.total_seconds() * 1000), options.group_id,
                          options.global_ranks_in_group)


torch.distributed.Backend.register_backend("ringlet", _create, extended_api=True, devices=["cpu"])
