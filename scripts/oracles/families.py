"""Writes tests/oracles/{xlmr,roberta,distilbert}/ (tiny Sentence Transformers folders) and their .safetensors: the
families whose encoder is BERT's but for positions, token types, dropout and names."""

from transformers import (BertTokenizerFast, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel,
                          RobertaTokenizer, XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer)

from encoders import vocabulary, write
from unigram import small_bytes, small_proto, xlm_roberta_pieces


def xlmr_transformer(vocab_size):
    config = XLMRobertaConfig(vocab_size=vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                              intermediate_size=64, max_position_embeddings=134, type_vocab_size=1,
                              layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return XLMRobertaModel(config, add_pooling_layer=False)


def xlmr_tokenizer():
    proto = small_proto()
    return XLMRobertaTokenizer(vocab=xlm_roberta_pieces(proto),
                               _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap)


def roberta_transformer(vocab_size):
    config = RobertaConfig(vocab_size=vocab_size, hidden_size=24, num_hidden_layers=1, num_attention_heads=3,
                           intermediate_size=48, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5,
                           hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return RobertaModel(config, add_pooling_layer=True)


def roberta_tokenizer():
    model = small_bytes()
    return RobertaTokenizer(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]])


def distilbert_transformer(vocab_size):
    return DistilBertModel(DistilBertConfig(vocab_size=vocab_size, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                            max_position_embeddings=64, dropout=0.0, attention_dropout=0.0))


def distilbert_tokenizer():
    pieces = vocabulary("bert", [], 0)
    return BertTokenizerFast(vocab={piece: i for i, piece in enumerate(pieces)}, do_lower_case=True)


if __name__ == "__main__":
    write("xlmr", 4, xlmr_transformer, xlmr_tokenizer, max_seq_length=130, normalize=True)
    write("roberta", 6, roberta_transformer, roberta_tokenizer, max_seq_length=64, normalize=False)
    write("distilbert", 5, distilbert_transformer, distilbert_tokenizer, max_seq_length=64, normalize=False)
