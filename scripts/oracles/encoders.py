"""What bert.py, mpnet.py and families.py share: a tiny Sentence Transformers folder and what Python computes from it."""

import copy
import shutil
import sys

import torch
from sentence_transformers import SentenceTransformer, losses, models
from tokenizers import BertWordPieceTokenizer
from tokenizers.models import WordPiece
from torch import nn
from transformers import Trainer

from oracle import FOLDER, Oracle, cu_seqlens, i32, i64
from texts import CORPUS, PAIRS, SENTENCES

# bert.py and mpnet.py --base, under RINGLET_ORACLES=FOLDER: the published sizes with the same small vocabulary.
BASE = "--base" in sys.argv[1:]
BASE_SIZES = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)

BATCHES = (PAIRS[:5], PAIRS[5:8], PAIRS[8:])


def vocabulary(name, special_tokens, size):
    """The committed vocab.txt; learned anew only where there is none, as the trainer breaks ties at random."""
    path = FOLDER / name / "vocab.txt"
    if path.exists():
        return path.read_text(encoding="utf-8").splitlines()
    trainer = BertWordPieceTokenizer(lowercase=True)
    trainer.train_from_iterator(CORPUS, vocab_size=size, min_frequency=1, limit_alphabet=80,
                                special_tokens=special_tokens, show_progress=False)
    return [piece for piece, _ in sorted(trainer.get_vocab().items(), key=lambda item: item[1])]


def draw_weights(oracle, model):
    """Large enough that every part of the model shows in the output, unlike the usual N(0, 0.02)."""
    usual = 0.15 * (32 / model.config.hidden_size) ** 0.5 if BASE and hasattr(model, "config") else 0.15
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.lower().replace("_", "").endswith("layernorm.weight"):
                parameter.copy_(1 + oracle.randn(*parameter.shape, scale=0.2))
            elif "relative_attention_bias" in name:
                parameter.copy_(oracle.randn(*parameter.shape, scale=0.7))
            else:
                parameter.copy_(oracle.randn(*parameter.shape, scale=usual))


def has_pooler(transformer):
    return getattr(transformer, "pooler", None) is not None


def save_folder(name, transformer, tokenizer, max_seq_length, normalize):
    """Lets the Python library write the folder, then reads it back in float64."""
    base = FOLDER / name
    shutil.rmtree(base, ignore_errors=True)
    transformer.save_pretrained(base)
    tokenizer.save_pretrained(base)
    parts = [models.Transformer(str(base), max_seq_length=max_seq_length)]
    if not has_pooler(transformer):  # AutoModel adds a random one
        parts[0].auto_model.pooler = None
    parts.append(models.Pooling(parts[0].get_embedding_dimension(), "mean"))
    if normalize:
        parts.append(models.Normalize())
    encoder = SentenceTransformer(modules=parts, device="cpu")
    shutil.rmtree(base)
    encoder.save_pretrained(str(base), create_model_card=False)
    if tokenizer.model is WordPiece:
        pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        (base / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces), encoding="utf-8")
    for path in base.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return SentenceTransformer(str(base), device="cpu").double().eval()


def packed(features):
    """Real tokens end to end: (ids (T,), cu_seqlens (B + 1,), index of the real tokens)."""
    real = features["attention_mask"].bool()
    return i32(features["input_ids"][real]), cu_seqlens(real.sum(1).tolist()), real


def tokenize(encoder, texts):
    return dict(encoder.preprocess(list(texts)))


def forward_case(oracle, encoder):
    features = tokenize(encoder, SENTENCES)
    ids, offsets, real = packed(features)
    transformer = encoder[0].auto_model
    with torch.no_grad():
        hidden = transformer(features["input_ids"], features["attention_mask"]).last_hidden_state[real]
        rows = torch.split(hidden, real.sum(1).tolist())
        mean = torch.stack([row.mean(0) for row in rows])
        oracle.add("forward", ids=ids, cu_seqlens=offsets, last_hidden_state=hidden, mean=mean,
                   cls=torch.stack([row[0] for row in rows]), max=torch.stack([row.amax(0) for row in rows]),
                   normalized=nn.functional.normalize(mean, dim=-1))
        oracle.add("encode", embeddings=encoder.encode(SENTENCES, convert_to_tensor=True).double())


def pooler_case(oracle, name, with_pooler):
    """The folder's model with its pooler, or a drawn one, on the sentences of `forward`."""
    encoder = SentenceTransformer(str(FOLDER / name), device="cpu").double().eval()
    plain = encoder[0].auto_model
    model = type(plain)(plain.config, add_pooling_layer=True).double().eval()
    model.load_state_dict(plain.state_dict(), strict=with_pooler)
    if not with_pooler:
        draw_weights(oracle, model.pooler)
        oracle.add("pooler", **{n: p for n, p in model.named_parameters() if n.startswith("pooler")})
    features = tokenize(encoder, SENTENCES)
    y = model(features["input_ids"], features["attention_mask"]).pooler_output
    grad_y = oracle.randn(*y.shape)
    y.backward(grad_y)
    oracle.add("pooler", y=y, grad_y=grad_y)
    oracle.add("pooler.grad", **{n: model.get_parameter(n).grad for n in (
        "pooler.dense.weight", "pooler.dense.bias", "embeddings.word_embeddings.weight")})


def batch_cases(oracle, encoder):
    """Three batches of pairs; the losses below run on batch0, AdamW on all three in turn."""
    inputs = []
    for index, pairs in enumerate(BATCHES):
        columns = [tokenize(encoder, [pair[column] for pair in pairs]) for column in (0, 1)]
        labels, scores = i64([pair[2] for pair in pairs]), torch.tensor([pair[3] / 5 for pair in pairs])
        case = {"labels": labels, "scores": scores}
        for name, features in zip("uv", columns):
            case[f"{name}_ids"], case[f"{name}_cu_seqlens"], _ = packed(features)
        oracle.add(f"batch{index}", **case)
        inputs.append((columns, labels, scores.double()))
    return inputs


def softmax_loss_cases(oracle, encoder, inputs):
    loss = losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3).double()
    draw_weights(oracle, loss.classifier)
    columns, labels, _ = inputs[0]
    value = loss([dict(column) for column in columns], labels)
    value.backward()
    oracle.add("softmax_loss", loss=value, **{f"classifier.{n}": p for n, p in loss.classifier.named_parameters()})
    oracle.add("softmax_loss.grad", **{short_name(n): p.grad for n, p in loss.named_parameters() if p.grad is not None})
    adamw_case(oracle, loss, inputs)


def short_name(name):
    """`model.0.auto_model.encoder.x` and `model.0.model.encoder.x` as the folder names it: `encoder.x`."""
    for prefix in ("model.0.auto_model.", "model.0.model."):
        name = name.removeprefix(prefix)
    return name


def adamw_losses(loss, inputs, hyper, steps=10):
    """Decay groups as the Trainer of transformers makes them: no LayerNorm, no name with "bias"."""
    decayed = set(Trainer.get_decay_parameter_names(None, loss))
    groups = [{"params": [p for n, p in loss.named_parameters() if n in decayed]},
              {"params": [p for n, p in loss.named_parameters() if n not in decayed], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"]), eps=hyper["eps"],
                                  weight_decay=hyper["weight_decay"])
    values = []
    for step in range(steps):
        columns, labels, _ = inputs[step % len(inputs)]
        optimizer.zero_grad()
        value = loss([dict(column) for column in columns], labels)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return values


def backwards(inputs):
    """The rows of each batch from last to first: the same losses, summed in another order."""
    def turn(column):
        return {name: x.flip(0) if torch.is_tensor(x) else x for name, x in column.items()}
    return [([turn(column) for column in columns], labels.flip(0), scores.flip(0))
            for columns, labels, scores in inputs]


def adamw_case(oracle, loss, inputs):
    """In float64, and how far PyTorch's own float32 strays from that, in two orders of summation."""
    hyper = dict(lr=2e-5 if BASE else 1e-3, weight_decay=0.01, beta1=0.9, beta2=0.999, eps=1e-8)
    singles = [(copy.deepcopy(loss).float(), order) for order in (inputs, backwards(inputs))]
    exact = adamw_losses(loss, inputs, hyper)
    strays = [max(abs(a - b) / b for a, b in zip(adamw_losses(single, order, hyper), exact))
              for single, order in singles]
    oracle.add("adamw", losses=exact, **hyper)
    if BASE:
        oracle.add("adamw", f32_strays=max(strays))
    print("  losses", [round(v, 4) for v in exact])
    print("  PyTorch's float32 strays from them by", " and ".join(f"{stray:.1e}" for stray in strays))


def embedding_loss_cases(oracle, encoder, inputs):
    """Value and gradient with respect to the embeddings; the encoder's part is the same for every loss."""
    columns, _, scores = inputs[0]
    makers = {"cosine_similarity_loss": lambda: losses.CosineSimilarityLoss(encoder),
              "multiple_negatives_ranking_loss": lambda: losses.MultipleNegativesRankingLoss(encoder),
              "multiple_negatives_ranking_loss.negatives": lambda: losses.MultipleNegativesRankingLoss(encoder)}
    with torch.no_grad():
        embeddings = [encoder(dict(column))["sentence_embedding"] for column in columns]
        negatives = encoder(tokenize(encoder, [pair[0] for pair in PAIRS[5:10]]))["sentence_embedding"]
    for case, make in makers.items():
        parts = embeddings + [negatives] if case.endswith("negatives") else embeddings
        leaves = [part.clone().requires_grad_() for part in parts]
        value = make().compute_loss_from_embeddings(leaves, scores)
        gradients = torch.autograd.grad(value, leaves)
        oracle.add(case, loss=value, **dict(zip(("u", "v", "negatives"), leaves)),
                   **{f"grad_{n}": g for n, g in zip(("u", "v", "negatives"), gradients)})


def write(name, seed, make_transformer, make_tokenizer, max_seq_length, normalize):
    oracle = Oracle(seed)
    (FOLDER / "sentences.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    tokenizer = make_tokenizer()
    transformer = make_transformer(len(tokenizer))
    draw_weights(oracle, transformer)
    encoder = save_folder(name, transformer, tokenizer, max_seq_length, normalize)
    forward_case(oracle, encoder)
    if normalize:  # the loss cases are of the plain mean embedding
        encoder = SentenceTransformer(modules=list(encoder)[:2], device="cpu").double().eval()
    inputs = batch_cases(oracle, encoder)
    embedding_loss_cases(oracle, encoder, inputs)
    softmax_loss_cases(oracle, encoder, inputs)
    if transformer.config.model_type != "distilbert":
        pooler_case(oracle, name, with_pooler=has_pooler(transformer))
    oracle.save(f"{name}.safetensors")
