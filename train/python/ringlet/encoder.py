"""SentenceEncoder, with the names of Sentence Transformers' SentenceTransformer."""
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import numpy

from . import _ringlet, hub
from .similarity import PRECISIONS, Array, paired, quantize, table

Path = Union[str, "os.PathLike[str]"]
Texts = Union[str, Sequence[str]]
_CHUNK = 1024  # texts between two states of the progress bar
_BATCH_TOKENS = 4096


def _list_of(sentences: Iterable[str], what: str) -> List[str]:
    if isinstance(sentences, (bytes, bytearray)) or not hasattr(sentences, "__iter__"):
        raise TypeError(f"{what}: expected texts, found {type(sentences).__name__}")
    texts = list(sentences)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{what}: expected texts, found {type(text).__name__} at index {i}")
        check_unicode(text, f"{what}: the text at index {i}")
    return [str(text) for text in texts]  # NumPy's are a class of their own


def check_unicode(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _ringlet.InputError(f"{what} has half of a surrogate pair, {text[error.start]!a}, at {error.start}") from None


def _check_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{argument}: expected {' or '.join(choices)}, found {value!r}")


def _as_tensor(array: Array) -> Any:
    """The same memory as PyTorch's tensor, or without PyTorch as ringlet's."""
    try:
        import torch
    except ImportError:
        return _ringlet.from_dlpack(array)
    return torch.from_numpy(array)


def _like(given: Any, found: Array) -> Any:
    """`found` as a tensor if `given` is one of PyTorch."""
    return _as_tensor(found) if type(given).__module__.split(".")[0] == "torch" else found


class Tokenizer:
    """The tokenizer of a SentenceEncoder."""

    def __init__(self, encoder: "SentenceEncoder") -> None:
        self._encoder = encoder

    def __call__(self, texts: Texts) -> Dict[str, Array]:
        """input_ids and attention_mask, (texts, longest) in int64."""
        rows = self._encoder._tokenize(_list_of([texts] if isinstance(texts, str) else texts, "tokenizer"))
        shape = len(rows), max(map(len, rows), default=0)
        ids, mask = numpy.full(shape, self.pad_token_id, "int64"), numpy.zeros(shape, "int64")
        for i, row in enumerate(rows):
            ids[i, :len(row)] = row
            mask[i, :len(row)] = 1
        return {"input_ids": ids, "attention_mask": mask}

    def encode(self, text: str) -> List[int]:
        """Ids with special tokens, cut to the model's max_seq_length."""
        return self._encoder._tokenize(_list_of([text], "tokenizer"))[0]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._encoder._decode([int(token) for token in token_ids], skip_special_tokens)

    @property
    def pad_token_id(self) -> int:
        return max(self._encoder._pad_token_id, 0)

    @property
    def vocab_size(self) -> int:
        return self._encoder._vocab_size

    @property
    def model_max_length(self) -> int:
        return self._encoder.max_seq_length

    def __len__(self) -> int:
        return self.vocab_size


class _ModelCard:
    """Receives figures from evaluators of Sentence Transformers, and keeps none: train() writes model cards."""

    def set_evaluation_metrics(self, *figures: Any) -> None:
        pass


class SentenceEncoder(_ringlet.Encoder):
    """A Sentence Transformers folder, or organisation/name at Hugging Face.

    Threads that use one encoder take turns; other Python threads run during its calls.
    """

    model_card_data = _ModelCard()

    def __init__(self, model: Path, device: Optional[str] = None, *, truncate_dim: Optional[int] = None,
                 similarity_fn_name: Optional[str] = None) -> None:
        super().__init__(hub.folder(model), device or "cpu")
        if similarity_fn_name is not None:
            self.similarity_fn_name = similarity_fn_name
        if truncate_dim is not None:
            self.truncate_dim = truncate_dim

    def __repr__(self) -> str:
        return (f"SentenceEncoder(dimension={self.dimension}, max_seq_length={self.max_seq_length}, "
                f"similarity_fn_name={self.similarity_fn_name!r}, device={self.device!r})")

    def encode(self, sentences: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
               batch_size: Optional[int] = None, show_progress_bar: Optional[bool] = None,
               output_value: str = "sentence_embedding", precision: Optional[str] = "float32", convert_to_numpy: bool = True,
               convert_to_tensor: bool = False, device: Optional[str] = None, normalize_embeddings: bool = False,
               truncate_dim: Optional[int] = None) -> Any:
        """Embeddings (texts, dimension), or (dimension) of a single text.

        A NumPy array, which is the memory of a ringlet.Tensor. With convert_to_tensor that memory as PyTorch's
        tensor, or as a ringlet.Tensor without PyTorch; with convert_to_numpy=False, too, a list of tensors.

        batch_size: a forward has the tokens of so many texts of max_seq_length; by default 4096 tokens.
        precision: float32, int8, uint8, binary or ubinary.
        device: the weights are moved there first.
        truncate_dim: leading columns, before normalize_embeddings.
        """
        _check_choice("output_value", output_value, ["sentence_embedding"])
        precision = precision or "float32"  # evaluators of Sentence Transformers pass None
        _check_choice("precision", precision, PRECISIONS)
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, found {batch_size}")
        if truncate_dim is not None and truncate_dim < 1:
            raise ValueError(f"truncate_dim: expected 1 or more, found {truncate_dim}")
        if isinstance(prompt, str):
            check_unicode(prompt, "prompt")
        if device is not None:
            self.to(device)
        single = isinstance(sentences, str)
        texts = _list_of([sentences] if isinstance(sentences, str) else sentences, "encode")
        tokens = _BATCH_TOKENS if batch_size is None else batch_size * self.max_seq_length
        found = self._in_chunks(texts, bool(show_progress_bar), prompt_name, prompt, truncate_dim, tokens)
        if normalize_embeddings:
            found /= numpy.maximum(numpy.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        found = quantize(found, precision)
        if convert_to_tensor:
            return _as_tensor(found[0] if single else found)
        if convert_to_numpy:
            return found[0] if single else found
        return _as_tensor(found[0]) if single else [_as_tensor(row) for row in found]

    def _in_chunks(self, texts: List[str], bar: bool, *how: Any) -> Array:
        if not bar or len(texts) <= _CHUNK:
            return self._encode(texts, *how).numpy()
        parts = []
        for begin in range(0, len(texts), _CHUNK):
            parts.append(self._encode(texts[begin:begin + _CHUNK], *how).numpy())
            print(f"\r{min(begin + _CHUNK, len(texts))}/{len(texts)} texts", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return numpy.concatenate(parts)

    def encode_query(self, sentences: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
                     **options: Any) -> Any:
        """encode() with the folder's prompt "query", if there is one, unless a prompt is given."""
        return self.encode(sentences, self._prompt_of("query", prompt_name, prompt), prompt, **options)

    def encode_document(self, sentences: Texts, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
                        **options: Any) -> Any:
        """encode() with the folder's prompt "document", if there is one, unless a prompt is given."""
        return self.encode(sentences, self._prompt_of("document", prompt_name, prompt), prompt, **options)

    def _prompt_of(self, role: str, prompt_name: Optional[str], prompt: Optional[str]) -> Optional[str]:
        """Without such a prompt there is none, not even the default one."""
        if prompt_name is not None or prompt is not None:
            return prompt_name
        return role if role in self.prompts else ""

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """similarity_fn_name of each of the first with each of the second, (n, m). Distances are negative."""
        return _like(embeddings1, table(self.similarity_fn_name, embeddings1, embeddings2))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """similarity_fn_name of row i with row i, (n)."""
        return _like(embeddings1, paired(self.similarity_fn_name, embeddings1, embeddings2))

    def evaluate(self, evaluator: Union[Path, Callable[..., Any]], output_path: Optional[Path] = None, *,
                 name: str = "") -> Any:
        """The figures of a file, by the evaluator that its columns call for, as `ringlet evaluate` prints them.

        A callable, such as an evaluator of Sentence Transformers, is called: evaluator(model, output_path).
        """
        if callable(evaluator):
            return evaluator(self, output_path)
        return self._evaluate(os.fspath(evaluator), name, "" if output_path is None else os.fspath(output_path))

    def __call__(self, features: Mapping[str, Any]) -> Dict[str, Any]:
        """The features of tokenize() with "sentence_embedding", a tensor as of convert_to_tensor, without gradient."""
        mask = numpy.asarray(features["attention_mask"]).astype(bool)
        ids = numpy.asarray(features["input_ids"])
        if ids.shape != mask.shape or ids.ndim != 2 or not mask.any(axis=1).all():
            raise ValueError(f"input_ids {ids.shape} and attention_mask {mask.shape}: expected (texts, tokens), "
                             "with a token in each row")
        if ids.size and not 0 <= ids[mask].min() <= ids[mask].max() < self.tokenizer.vocab_size:
            raise ValueError(f"input_ids: expected 0 to {self.tokenizer.vocab_size - 1}")
        rows = [row[kept].tolist() for row, kept in zip(ids, mask)]
        if max(map(len, rows), default=0) > self.max_seq_length:
            raise ValueError(f"input_ids: expected at most {self.max_seq_length} tokens of a text")
        return {**features, "sentence_embedding": _as_tensor(self._forward(rows).numpy())}

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self)

    def tokenize(self, texts: Texts) -> Dict[str, Array]:
        """input_ids and attention_mask, (texts, longest) in int64: what calling the model takes."""
        return self.tokenizer(texts)

    def get_max_seq_length(self) -> int:
        return self.max_seq_length

    def get_sentence_embedding_dimension(self) -> int:
        """Columns of encode()'s result, which truncate_dim cuts."""
        return self.dimension
