"""Writes tests/oracles/folders.safetensors: what Python computes from the folders of bert.py and mpnet.py where a
setting is another, and of texts that spell the padding token."""

import json
import pathlib
import shutil
import tempfile

from sentence_transformers import SentenceTransformer
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

from oracle import FOLDER, Oracle
from texts import SENTENCES

PADDING = ["a {} dog runs", "{}", "two {}{} cats sleep {} here", "the dog {}", "no padding in here"]


def encoder_with(name, file=None, **settings):
    """The folder's model in float64, with keys of one of its JSON files set."""
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent) / name
        shutil.copytree(FOLDER / name, folder)
        if file:
            path = folder / file
            path.write_text(json.dumps(json.loads(path.read_text()) | settings))
        return SentenceTransformer(str(folder), device="cpu").double().eval()


def encode(encoder, texts):
    return encoder.encode(texts, convert_to_tensor=True).double()


def padding_case(oracle, name, token):
    """Embeddings, and the gradients of the tables' first rows, which hold the padding's."""
    encoder = encoder_with(name)
    texts = [text.format(*[token] * text.count("{}")) for text in PADDING]
    embeddings = encoder(encoder.preprocess(texts))["sentence_embedding"]
    grad = oracle.randn(*embeddings.shape)
    embeddings.backward(grad)
    tables = encoder[0].auto_model.embeddings
    oracle.add(f"padding/{name}", embeddings=embeddings, grad=grad,
               word_grad=tables.word_embeddings.weight.grad[:6], position_grad=tables.position_embeddings.weight.grad[:6])


def similarity_case(oracle, name):
    """Of the first six sentences with the last six, by the similarity that the folder names."""
    encoder = encoder_with("bert", "config_sentence_transformers.json", similarity_fn_name=name)
    scores = [0.1, 0.9, 0.4, 0.3, 0.8, 0.6]
    evaluator = EmbeddingSimilarityEvaluator(SENTENCES[:6], SENTENCES[6:], scores, write_csv=False)
    metrics = evaluator(encoder)
    oracle.add(f"similarity/{name}", scores=scores, pearson=metrics[f"pearson_{name}"],
               spearman=metrics[f"spearman_{name}"])


def main():
    oracle = Oracle(5)
    for token_id in (0, 5):
        encoder = encoder_with("mpnet", "config.json", pad_token_id=token_id)
        oracle.add(f"pad_token_id/{token_id}", embeddings=encode(encoder, SENTENCES))
    padding_case(oracle, "mpnet", "<pad>")
    padding_case(oracle, "bert", "[PAD]")
    for columns in (5, 1000):  # mpnet's folder normalises first
        encoder = encoder_with("mpnet", "config_sentence_transformers.json", truncate_dim=columns)
        oracle.add(f"truncate_dim/{columns}", embeddings=encode(encoder, SENTENCES))
    for name in ("dot", "euclidean"):
        similarity_case(oracle, name)
    oracle.save("folders.safetensors")


if __name__ == "__main__":
    main()
