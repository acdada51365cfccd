"""python -m ringlet: the program `ringlet` of this package."""
import os
import pathlib
import sys

_PACKAGE = pathlib.Path(__file__).parent


def main() -> None:
    if sys.argv[1:] == ["--cmake-dir"]:  # for C++ programs: -Dringlet_DIR=$(python -m ringlet --cmake-dir)
        folder = _PACKAGE / "lib/cmake/ringlet"
        if not folder.is_dir():
            sys.exit(f"ringlet: --cmake-dir is of a package that pip installed, and there is no {folder}")
        print(folder)
        return
    os.execv(_PACKAGE / "bin/ringlet", ["ringlet", *sys.argv[1:]])


if __name__ == "__main__":
    main()
