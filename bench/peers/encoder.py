"""BERT and MPNet in plain PyTorch (1.13 and later), layer for layer what transformers computes.

Parameter names are those of the Hugging Face checkpoints; `scripts/oracles/check_peer.py` compares outputs
and gradients with the oracles. Padded batches: ids (B, L), mask (B, L) with 1 on real tokens.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {  # vocabulary, hidden, layers, heads, positions
    "mpnet-base": ("mpnet", 30527, 768, 12, 12, 514),
    "bert-base": ("bert", 30522, 768, 12, 12, 512),
    "minilm-l6": ("bert", 30522, 384, 6, 12, 512),
    "tiny": ("bert", 30522, 128, 2, 2, 512),
}


class Config:
    def __init__(self, kind, vocab, hidden, layers, heads, positions, dropout=0.1, attention="eager"):
        self.kind, self.vocab, self.hidden, self.layers = kind, vocab, hidden, layers
        self.heads, self.positions, self.dropout, self.attention = heads, positions, dropout, attention
        self.eps = 1e-5 if kind == "mpnet" else 1e-12


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mpnet = config.kind == "mpnet"
        padding = 1 if self.mpnet else 0
        self.word_embeddings = nn.Embedding(config.vocab, config.hidden, padding_idx=padding)
        self.position_embeddings = nn.Embedding(config.positions, config.hidden,
                                                padding_idx=1 if self.mpnet else None)
        if not self.mpnet:
            self.token_type_embeddings = nn.Embedding(2, config.hidden)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids, mask):
        total = self.word_embeddings(ids)
        if self.mpnet:  # the first token has position 2, padding has 1
            total = total + self.position_embeddings(mask.cumsum(1) * mask + 1)
        else:
            total = total + self.token_type_embeddings(torch.zeros_like(ids))
            total = total + self.position_embeddings(torch.arange(ids.shape[1], device=ids.device)[None])
        return self.dropout(self.LayerNorm(total))


class Attention(nn.Module):
    """Scores, softmax and dropout as separate ops ("eager"), or PyTorch's fused op ("sdpa")."""

    def __init__(self, config, names):
        super().__init__()
        self.heads, self.dropout, self.kind = config.heads, config.dropout, config.attention
        self.names = names
        for name in names:
            setattr(self, name, nn.Linear(config.hidden, config.hidden))

    def forward(self, hidden, bias):
        rows, length, width = hidden.shape
        q, k, v = (getattr(self, name)(hidden).view(rows, length, self.heads, -1).transpose(1, 2)
                   for name in self.names)
        if self.kind == "sdpa":
            drop = self.dropout if self.training else 0.0
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=drop)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + bias
            weights = F.dropout(F.softmax(scores, dim=-1), self.dropout, self.training)
            context = torch.matmul(weights, v)
        return context.permute(0, 2, 1, 3).reshape(rows, length, width)


class Residual(nn.Module):
    """LayerNorm(dropout(dense(x)) + residual)."""

    def __init__(self, config, inner):
        super().__init__()
        self.dense = nn.Linear(inner, config.hidden)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, residual):
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class BertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = Attention(config, ("query", "key", "value"))
        self.output = Residual(config, config.hidden)

    def forward(self, hidden, bias):
        return self.output(self.self(hidden, bias), hidden)


class MPNetAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config, ("q", "k", "v"))
        self.attn.o = nn.Linear(config.hidden, config.hidden)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden, bias):
        return self.LayerNorm(self.dropout(self.attn.o(self.attn(hidden, bias))) + hidden)


class Intermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden, 4 * config.hidden)

    def forward(self, hidden):
        return F.gelu(self.dense(hidden))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = MPNetAttention(config) if config.kind == "mpnet" else BertAttention(config)
        self.intermediate = Intermediate(config)
        self.output = Residual(config, 4 * config.hidden)

    def forward(self, hidden, bias):
        hidden = self.attention(hidden, bias)
        return self.output(self.intermediate(hidden), hidden)


def relative_buckets(length, buckets=32, max_distance=128, device="cpu"):
    """(L, L) bucket of each query and key."""
    position = torch.arange(length, device=device)
    distance = position[:, None] - position[None, :]  # query - key
    half, exact = buckets // 2, buckets // 4
    far = distance.abs().clamp(min=1).float() / exact
    far = exact + (far.log() / math.log(max_distance / exact) * (half - exact)).long()
    near = torch.where(distance.abs() < exact, distance.abs(), far.clamp(max=half - 1))
    return near + (distance < 0).long() * half


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList([Layer(config) for _ in range(config.layers)])
        if config.kind == "mpnet":
            self.encoder.relative_attention_bias = nn.Embedding(32, config.heads)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                module.weight.data.normal_(0, 0.02)
            if isinstance(module, nn.Linear):
                module.bias.data.zero_()

    def forward(self, ids, mask):
        hidden = self.embeddings(ids, mask)  # (B, L, H)
        bias = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * torch.finfo(hidden.dtype).min
        if hasattr(self.encoder, "relative_attention_bias"):
            table = self.encoder.relative_attention_bias(relative_buckets(ids.shape[1], device=ids.device))
            bias = table.permute(2, 0, 1)[None] + bias  # from (L, L, heads)
        for layer in self.encoder.layer:
            hidden = layer(hidden, bias)
        return hidden


class SoftmaxLoss(nn.Module):
    """Mean pooling, then cross-entropy of Linear(u, v, |u - v|); one forward of the encoder per column."""

    def __init__(self, model, hidden, labels=3):
        super().__init__()
        self.model = model
        self.classifier = nn.Linear(3 * hidden, labels)

    def embed(self, ids, mask):
        weight = mask[:, :, None].to(torch.float32)
        hidden = self.model(ids, mask)
        weight = weight.to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)

    def forward(self, columns, labels):
        u, v = (self.embed(ids, mask) for ids, mask in columns)
        return F.cross_entropy(self.classifier(torch.cat([u, v, (u - v).abs()], dim=1)), labels)
