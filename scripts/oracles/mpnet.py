"""Writes tests/oracles/mpnet/ (a tiny Sentence Transformers folder) and tests/oracles/mpnet.safetensors."""

from transformers import MPNetConfig, MPNetModel, MPNetTokenizerFast

from encoders import BASE, BASE_SIZES, vocabulary, write


def make_transformer(vocab_size):
    sizes = BASE_SIZES if BASE else dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                                         intermediate_size=128)
    config = MPNetConfig(vocab_size=vocab_size, max_position_embeddings=134, hidden_dropout_prob=0.0,
                         attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, **sizes)
    return MPNetModel(config, add_pooling_layer=False)


def make_tokenizer():
    """Ids laid out as the published vocabulary: four of MPNet's own, then BERT's with [UNK], then <mask>."""
    pieces = vocabulary("mpnet", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], 320)
    if pieces[0] != "<s>":
        pieces = ["<s>", "<pad>", "</s>", "<unk>"] + pieces + ["<mask>"]
    return MPNetTokenizerFast(vocab={piece: i for i, piece in enumerate(pieces)}, do_lower_case=True)


if __name__ == "__main__":
    write("mpnet", 3, make_transformer, make_tokenizer, max_seq_length=130, normalize=True)
