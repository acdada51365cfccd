"""python -m ringlet: the program `ringlet` that the package was installed with."""
import importlib.metadata
import os
import pathlib
import sys


def program() -> "os.PathLike[str]":
    """Its path: pip's record names it, and a build folder has it beside the module's."""
    try:
        files = importlib.metadata.files("ringlet") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.parts[-2:] == ("bin", "ringlet"):
            return pathlib.Path(str(file.locate()))
    return pathlib.Path(__file__).parents[2] / "cli" / "ringlet"


if __name__ == "__main__":
    os.execv(program(), ["ringlet", *sys.argv[1:]])
