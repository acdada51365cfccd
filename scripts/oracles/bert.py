"""Writes tests/oracles/bert/ (a tiny Sentence Transformers folder) and tests/oracles/bert.safetensors."""

from transformers import BertConfig, BertModel, BertTokenizerFast

from encoders import BASE, BASE_SIZES, vocabulary, write


def make_transformer(vocab_size):
    sizes = BASE_SIZES if BASE else dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
                                         intermediate_size=192)
    config = BertConfig(vocab_size=vocab_size, max_position_embeddings=64, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-12, **sizes)
    return BertModel(config, add_pooling_layer=True)


def make_tokenizer():
    pieces = vocabulary("bert", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], 320)
    return BertTokenizerFast(vocab={piece: i for i, piece in enumerate(pieces)}, do_lower_case=True)


if __name__ == "__main__":
    write("bert", 2, make_transformer, make_tokenizer, max_seq_length=64, normalize=False)
