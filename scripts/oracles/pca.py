"""Writes tests/oracles/pca.safetensors: scikit-learn's PCA of drawn rows, in float64. With MODEL REDUCED TEXTS
[--whiten]: projects the embeddings of MODEL by a PCA fitted to the lines of TEXTS, and prints how far those of
REDUCED, which `ringlet reduce` wrote, are from that, up to the components' signs."""

import pathlib
import sys

import numpy
import torch
from sklearn.decomposition import PCA

from oracle import Oracle

COMPONENTS = 6


def fit(rows, components, whiten=False):
    return PCA(components, svd_solver="covariance_eigh", whiten=whiten).fit(rows)


def compare(model, reduced, texts, whiten):
    from sentence_transformers import SentenceTransformer
    lines = pathlib.Path(texts).read_text(encoding="utf-8").splitlines()
    embed = [SentenceTransformer(folder, device="cpu").double().eval() for folder in (model, reduced)]
    rows, found = (encoder.encode(lines, convert_to_tensor=True).double().numpy() for encoder in embed)
    pca = fit(rows, found.shape[1], whiten)
    expected = pca.transform(rows) if whiten else rows @ pca.components_.T
    if whiten:
        expected /= numpy.linalg.norm(expected, axis=1, keepdims=True)
    signs = numpy.sign((found * expected).sum(0))
    print(f"{reduced}: {numpy.abs(found - expected * signs).max():.1e} of {numpy.abs(expected).max():.2f}, "
          f"{100 * pca.explained_variance_ratio_.sum():.2f} % of the variance")


def main():
    words = sys.argv[1:]
    if words:
        folders = [word for word in words if not word.startswith("--")]
        return compare(*folders, whiten="--whiten" in words)
    oracle = Oracle(9)
    rows = oracle.randn(120, 16) * torch.arange(16, 0, -1) @ oracle.randn(16, 16) + oracle.randn(16) * 3
    rows = rows.float().double()
    pca = fit(rows.numpy(), COMPONENTS)
    oracle.add("pca.whole", rows=rows, components=torch.from_numpy(pca.components_),
               mean=torch.from_numpy(pca.mean_), variances=torch.from_numpy(pca.explained_variance_),
               kept=float(pca.explained_variance_ratio_.sum()), projected=rows @ torch.from_numpy(pca.components_.T))
    oracle.save("pca.safetensors")


if __name__ == "__main__":
    main()
