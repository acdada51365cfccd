"""Sentence encoders of ringlet: encoding, training, and tensors by DLPack."""
from ._ringlet import Error, InputError, Tensor, __version__, from_dlpack
from .encoder import SentenceEncoder, Tokenizer
from .training import TrainingResult, train

__all__ = ["Error", "InputError", "SentenceEncoder", "Tensor", "Tokenizer", "TrainingResult", "__version__",
           "from_dlpack", "train"]
