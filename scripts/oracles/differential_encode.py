"""Random folders: `ringlet encode` against Sentence Transformers, tokenize_lines against AutoTokenizer."""

import json
import logging
import re
import shutil
import warnings

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from differential_case import Difference, matching, run
from differential_folders import TOKENIZER_CHANGES, Folder
from differential_texts import line, text

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
logging.disable(logging.ERROR)
warnings.simplefilter("ignore")

# Intended refusals: a pattern of the message, and the reason.
REFUSED = {
    "hidden_act .* is not supported": "activations other than exact GELU",
    "position_embedding_type .* is not supported": "relative positions of BERT",
    "relative_attention_num_buckets must be": "another count of MPNet's buckets",
    "(is_decoder|add_cross_attention|is_encoder_decoder) true": "decoders",
    "pruned_heads .* is not supported": "pruned heads",
    "modules.json: (module|expected)": "modules other than Transformer, Pooling and Normalize in this order",
    "no prompt is named": "a default prompt without a text",
    "pooling mode|'pooling_mode' has the wrong type": "pooling modes other than one of mean, cls and max",
    "include_prompt: false is not supported with a": "a prompt that is not pooled",
    "prompt name .*: expected": "a prompt that is not there",
    "chat_template .*is not supported|chat templates are not supported": "chat templates of a bare checkpoint",
    "architectures: .* is not supported without modules.json": "a bare checkpoint that pools the last token",
    "truncation.strategy: expected LongestFirst": "another strategy of truncation",
    r"sentence_bert_config.json: (\w+: )?'.*' is not a known key|processing_kwargs\S* .* is not supported":
        "arguments of Python's classes in sentence_bert_config.json",
    "1_Pooling/config.json: '.*' is not a known key": "arguments of Python's class in the pooling's configuration",
    "(model|config)_(args|kwargs): (torch_)?dtype .* is not supported": "arguments that make Python compute in bf16",
    "module_input_name .* is not supported": "a Normalize of tokens",
    "(query|document)_length .* is not supported": "lengths by task",
    "transformer_task .* is not supported": "another head",
    "expected scores that differ": "pairs of one score, whose correlation would be NaN",
    "padding_side: expected right|padding.direction: expected Right": "padding on the left",
    "split_special_tokens: expected false": "special tokens that are cut to pieces",
    "token .* in the vocabulary, it is not there": "a special token that is no piece",
    "tokenizer_class: .* needs tokenizer.json": "a generic tokenizer from a vocabulary alone",
    "do_lower_case: true is not supported with a tokenizer that keeps case": "lower case outside the tokenizer",
}
# Failures of the peers on folders that ringlet reads: a pattern of their message, and the reason.
PEER_FAILS = {
    "IndexError: index out of range|must match the (existing )?size": "texts beyond the positions, which ringlet cuts",
    "missing 1 required positional argument: 'embedding_dimension'": "a key that ringlet has no use for",
    "does not support an attention implementation": "a kernel's name that is none of ringlet's",
    "dimension to be chunked": "chunks that do not fit, of which ringlet has none",
    "Unrecognized processing class|conflicts with the method": "a tokenizer's key that is a method's name in Python",
}


def refusal(done, kind, tally):
    """Whether ringlet refused as it is meant to: with code 2 and one line."""
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    reason = matching(REFUSED, message)
    if done.returncode != 2 or not reason:
        raise Difference(f"ringlet ended with {done.returncode}: {done.stderr.strip()}")
    tally.refused[kind, reason] += 1


def peer_result(function, kind, tally):
    try:
        return function()
    except Difference:
        raise
    except Exception as error:
        reason = matching(PEER_FAILS, f"{type(error).__name__}: {error}")
        if not reason:
            raise Difference(f"the peer failed, ringlet did not: {type(error).__name__}: {error}"[:500]) from None
        tally.meant[kind, reason] += 1
        return None


def written(name, options, **how):
    path = options.scratch / "folder"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    folder = Folder(name, **how)
    folder.write(path)
    return folder, path


def compare_each(compare):
    """A batch of cases that are compared one by one."""
    def batch(names, options, tally):
        differences = {}
        for name in names:
            try:
                compare(name, options, tally)
            except Difference as difference:
                differences[name] = str(difference)
        return differences
    return batch


def ringlet_embeddings(folder, path, texts, options, tally):
    given, made = options.scratch / "texts.txt", options.scratch / "embeddings.npy"
    given.write_text("".join(t + "\n" for t in texts), encoding="utf-8", newline="\n")
    made.unlink(missing_ok=True)
    done = run(options.ringlet, "encode", given, "--model", path, "--output", made,
               *(part for option in folder.options.items() for part in option))
    if done.returncode == 0:
        return torch.from_numpy(np.load(made)).double(), done.stderr
    refusal(done, "folders", tally)
    return None, None


def peer_embeddings(folder, path, texts, named):
    """In float64, and in the dtype of the case; ringlet has `named` the keys that it does not follow."""
    model = SentenceTransformer(str(path), device="cpu")
    if model.dtype != torch.float32:  # ringlet's, with the weights as they are in the file
        if "dtype': the key has no effect" not in named:
            raise Difference(f"the peer computes in {model.dtype}, no key is named for it")
        model = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": torch.float64})
    given = folder.options
    if "--max-length" in given:
        model.max_seq_length = int(given["--max-length"])
    narrow = torch.bfloat16 if "--dtype" in given else torch.float32
    how = {"batch_size": folder.random.choice((1, 32)), "prompt_name": given.get("--prompt-name")}
    return [model.to(dtype).encode(texts, convert_to_tensor=True, show_progress_bar=False, **how).double()
            for dtype in (torch.float64, narrow)]


def share_of(ours, exact, narrow, unit):
    """Per embedding: the error as a share of 16 times PyTorch's own and 64 units of its size; the relative error."""
    if ours.shape != exact.shape:
        raise Difference(f"embeddings {tuple(ours.shape)}, the peer's {tuple(exact.shape)}")
    allowed = 16 * (narrow - exact).abs().max() + 64 * unit * exact.abs().amax(1)
    error = (ours - exact).abs().amax(1)
    error = torch.where((ours.isnan() == exact.isnan()).all(1), error.nan_to_num(0), torch.inf)
    return (error / allowed).nan_to_num(0), error / exact.abs().max()


def folder_case(name, options, tally):
    folder, path = written(name, options)
    texts = [line(folder.random, folder.added) for _ in range(24)]
    texts[0] = texts[0].lstrip("\ufeff")  # a byte order mark at a file's start is not part of its text
    what = f"{folder.kind}, {'; '.join(folder.changes)}"
    try:
        ours, named = ringlet_embeddings(folder, path, texts, options, tally)
        if ours is None:
            return
        expected = peer_result(lambda: peer_embeddings(folder, path, texts, named), "folders", tally)
        if expected is None:
            return
        share, error = share_of(ours, *expected, 2.0 ** -8 if "--dtype" in folder.options else 2.0 ** -24)
    except Difference as difference:
        raise Difference(f"{what}: {difference}") from None
    if share.max() > 1:
        at = share.argmax().item()
        raise Difference(f"{what}: {int((share > 1).sum())} of {len(texts)} texts, error {error[at]:.2g}, "
                         f"for instance {texts[at][:80]!r}")
    tally.count(f"texts in folders of {folder.kind}", share.max().item(), len(texts))
    tally.count("folders")
    for change in folder.changes:
        tally.count(f"folders with {re.split('[ =.]', change)[0]}")


def tokenizer_case(name, options, tally):
    folder, path = written(name, options, changes=TOKENIZER_CHANGES, tokenizer_only=True)
    r = folder.random
    values = [text(r, folder.added) if r.random() < 0.8 else [text(r, folder.added), text(r, folder.added)]
              for _ in range(200)]
    length = r.choice((0, 0, 5, 9, 16))
    done = run(options.tokenize, path, *(["--max-length", length] if length else []),
               input="".join(json.dumps(value) + "\n" for value in values))
    what = f"{folder.kind}, {'; '.join(folder.changes)}, length {length}"
    try:
        if done.returncode != 0:
            return refusal(done, "tokenizers", tally)
        tokenizer = peer_result(lambda: AutoTokenizer.from_pretrained(path), "tokenizers", tally)
        if tokenizer is None:
            return
    except Difference as difference:
        raise Difference(f"{what}: {difference}") from None
    how = {"truncation": True, "max_length": length} if length else {}
    differing = []
    for value, ids in zip(values, done.stdout.splitlines(), strict=True):
        sides = [[side] for side in ([value] if isinstance(value, str) else value)]
        expected = tokenizer(*sides, **how)["input_ids"][0]
        if expected != [int(i) for i in ids.split()]:
            differing.append((value, ids, expected))
    if differing:
        value, ids, expected = min(differing, key=lambda case: len(str(case[0])))
        raise Difference(f"{what}: {len(differing)} of {len(values)} texts: {value!r}: {ids}, the peer's {expected}")
    tally.count(f"texts for tokenizers of {folder.kind}", 0, len(values))
    tally.count("tokenizers")
