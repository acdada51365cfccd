"""Models of Hugging Face: from its cache, or fetched by huggingface_hub."""
import os
import re
from typing import Union

from ._ringlet import InputError, cached_folder

_OTHER_WEIGHTS = ["*.bin", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.pt", "onnx/*", "openvino/*"]


def folder(model: Union[str, "os.PathLike[str]"]) -> str:
    """The model's folder. A name that is no folder and not in the cache is fetched."""
    name = os.fspath(model)
    if cached_folder(name) != name or os.path.exists(name) or not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", name):
        return cached_folder(name)
    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise InputError(f"{name}: no such folder, and Hugging Face's cache does not have {repository}; "
                         "`pip install huggingface_hub` fetches it at the next call") from None
    try:
        return str(snapshot_download(repository, ignore_patterns=_OTHER_WEIGHTS))
    except Exception as error:  # of its own and of the network
        reason = " ".join(str(error).split())  # in one line
        raise InputError(f"{name}: huggingface_hub cannot fetch {repository}: {reason}") from error
