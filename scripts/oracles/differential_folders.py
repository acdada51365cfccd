"""Random Sentence Transformers folders: a plain BERT or MPNet, changed in one to five ways."""

import json

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from differential_case import generators
from differential_texts import pieces
from tokenizer import build

MODULE = "sentence_transformers.models."
NAMES = {"bert": ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"), "mpnet": ("<s>", "</s>", "<pad>", "[UNK]", "<mask>")}
ROLES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
ORDER = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
         "mpnet": ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]}


class Folder:
    """The files of a folder as values, until write()."""

    def __init__(self, name, changes=None, tokenizer_only=False):
        self.random, self.generator = generators(name)
        r = self.random
        self.tokenizer_only = tokenizer_only
        self.kind = r.choice(("bert", "mpnet"))
        self.vocab = pieces(r, ORDER[self.kind])
        self.added = []
        self.draw_config()
        self.draw_tokenizer()
        self.sentence = {"max_seq_length": r.choice([7, 12, self.config["max_position_embeddings"] - 2]),
                         "do_lower_case": False}
        self.pooling = {"word_embedding_dimension": self.config["hidden_size"], "pooling_mode_cls_token": False,
                        "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False, "include_prompt": True}
        self.settings = {"__version__": {"sentence_transformers": "5.0.0"}, "prompts": {}, "default_prompt_name": None,
                         "similarity_fn_name": "cosine"}
        self.module_config = {}
        self.modules = [("", MODULE + "Transformer"), ("1_Pooling", MODULE + "Pooling")]
        if r.random() < 0.3:
            self.modules.append(("2_Normalize", MODULE + "Normalize"))
        self.weights = {"dtype": torch.float32, "prefix": "", "shards": 1, "old_names": False, "pooler": False}
        self.more, self.without, self.options = {}, set(), {}
        self.changes = []
        changes = CHANGES if changes is None else changes
        for change in r.sample(changes, min(len(changes), r.choice((1, 1, 1, 1, 2, 3, 5)))):
            self.changes.append(change(self) or change.__name__)

    def draw_config(self):
        r = self.random
        heads, size = r.choice((1, 2, 3, 4)), r.choice((4, 8, 16, 10))
        self.config = {
            "model_type": self.kind, "hidden_size": heads * size, "num_attention_heads": heads,
            "num_hidden_layers": r.choice((1, 1, 2, 3)), "intermediate_size": r.choice((8, 24, 33, 64)),
            "max_position_embeddings": r.choice((16, 40, 70, 130)), "vocab_size": len(self.vocab) + 8,
            "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0 if self.kind == "bert" else 1}
        if self.kind == "bert":
            self.config |= {"type_vocab_size": r.choice((1, 2, 3)), "architectures": ["BertModel"]}
        else:
            self.config |= {"relative_attention_num_buckets": 32, "architectures": ["MPNetModel"]}

    def draw_tokenizer(self):
        """tokenizer.json and a configuration that says the same."""
        lower = self.random.random() < 0.7
        ids = {piece: i for i, piece in enumerate(self.vocab)}
        self.tokenizer = json.loads(build(ids, lowercase=lower).to_str())
        self.tokenizer_model = self.tokenizer["model"]
        kind = "BertTokenizer" if self.kind == "bert" else "MPNetTokenizer"
        self.tokenizer_config = {"tokenizer_class": kind, "do_lower_case": lower, "strip_accents": None,
                                 "tokenize_chinese_chars": True, "model_max_length": 512,
                                 **dict(zip(ROLES, NAMES[self.kind]))}

    def add_token(self, content, **flags):
        """To tokenizer.json, as one more piece or as one of the vocabulary."""
        known = self.vocab.index(content) if content in self.vocab else len(self.vocab) + len(self.added)
        if any(content == token["content"] for token in self.tokenizer["added_tokens"]):
            return
        if known >= len(self.vocab):
            self.added.append(content)
        self.tokenizer["added_tokens"].append({"id": known, "content": content, "single_word": False, "lstrip": False,
                                               "rstrip": False, "normalized": True, "special": False, **flags})

    def tensors(self):
        make, model = (BertConfig, BertModel) if self.kind == "bert" else (MPNetConfig, MPNetModel)
        sizes = {key: value for key, value in self.config.items() if key in (
            "hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "max_position_embeddings",
            "vocab_size", "type_vocab_size", "relative_attention_num_buckets")}
        named = model(make(**sizes), add_pooling_layer=self.weights["pooler"]).state_dict()
        out = {}
        for name, value in named.items():
            if value.is_floating_point():
                x = torch.randn(value.shape, generator=self.generator)
                scale = 0.7 if "relative" in name else 0.15 * (32 / self.config["hidden_size"]) ** 0.5
                out[self.weight_name(name)] = (1 + 0.2 * x if "LayerNorm.weight" in name else scale * x).to(
                    self.weights["dtype"])
        return out

    def weight_name(self, name):
        if self.weights["old_names"]:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return self.weights["prefix"] + name

    def write_weights(self, path):
        tensors, shards = self.tensors(), self.weights["shards"]
        if shards == 1:
            return save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        files = {}
        for i in range(shards):
            names = list(tensors)[i::shards]
            file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
            save_file({name: tensors[name] for name in names}, path / file, metadata={"format": "pt"})
            files |= dict.fromkeys(names, file)
        index = {"metadata": {"total_size": sum(x.nbytes for x in tensors.values())}, "weight_map": files}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))

    def write(self, path):
        modules = [{"idx": i, "name": str(i), "path": where, "type": kind}
                   for i, (where, kind) in enumerate(self.modules)]
        files = {"config.json": self.config, "tokenizer.json": self.tokenizer, "modules.json": modules,
                 "tokenizer_config.json": self.tokenizer_config, "sentence_bert_config.json": self.sentence,
                 "1_Pooling/config.json": self.pooling, "config_sentence_transformers.json": self.settings}
        files |= {f"{where}/config.json": self.module_config for where, kind in self.modules
                  if where and not kind.endswith("Pooling")}
        files["vocab.txt"] = "".join(piece + "\n" for piece in self.vocab)
        for name, value in (files | self.more).items():
            if name not in self.without:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        if not self.tokenizer_only:
            self.write_weights(path)


CHANGES, TOKENIZER_CHANGES = [], []
# Keys that change results.
OFTEN = ("pad_token_id", "is_decoder", "truncate_dim", "truncation_side", "processing_kwargs", "tokenizer_args",
         "config_args", "do_lower_case", "strip_accents", "tokenizer_class", "max_seq_length", "pooling_mode")


def change(function, times=1, of_tokenizer=False):
    CHANGES.extend([function] * times)
    if of_tokenizer:
        TOKENIZER_CHANGES.extend([function] * times)


def setting(file, key, *values):
    """A change that gives a key of a file one of the values."""
    def set_key(folder):
        value = folder.random.choice(values)
        getattr(folder, file)[key] = value
        return f"{file}.{key}={value}"
    change(set_key, 4 if key in OFTEN else 1, file.startswith("tokenizer"))


def absent(file, *keys):
    def drop(folder):
        key = folder.random.choice(keys)
        getattr(folder, file).pop(key, None)
        return f"{file} without {key}"
    change(drop, 3, file.startswith("tokenizer"))


for key, values in {
        "pad_token_id": (0, 1, 2, 3, 7), "is_decoder": (True, False), "add_cross_attention": (True, False),
        "hidden_act": ("gelu_new", "relu", "silu", "gelu_python", "gelu_pytorch_tanh"),
        "position_embedding_type": ("absolute", "relative_key"), "layer_norm_eps": (1e-3, 1e-5),
        "relative_attention_num_buckets": (16, 32, 64), "use_cache": (False,), "chunk_size_feed_forward": (0, 4),
        "torch_dtype": ("float32", "bfloat16", "float16"), "dtype": ("float32", "bfloat16", "float16"),
        "hidden_dropout_prob": (0.0, 0.5), "attention_probs_dropout_prob": (0.0, 0.5), "initializer_range": (0.5,),
        "architectures": (["BertForMaskedLM"], ["MPNetForMaskedLM"], ["BertForCausalLM"], None),
        "output_hidden_states": (True,),
        "output_attentions": (True,), "return_dict": (False,), "_attn_implementation": ("eager", "sdpa"),
        "classifier_dropout": (None, 0.1), "gradient_checkpointing": (True,), "tie_word_embeddings": (True, False),
        "pruned_heads": ({}, {"0": [0]}), "is_encoder_decoder": (True,), "bos_token_id": (3,), "eos_token_id": (4,),
        "transformers_version": ("4.6.0",), "_name_or_path": ("x/y",), "id2label": ({"0": "A", "1": "B"},),
        "tokenizer_class": ("BertTokenizer", "MPNetTokenizer"), "unheard_of": (1,)}.items():
    setting("config", key, *values)
for key, values in {
        "do_lower_case": (True, False), "strip_accents": (True, False, None), "tokenize_chinese_chars": (True, False),
        "tokenizer_class": ("BertTokenizer", "BertTokenizerFast", "MPNetTokenizer", "MPNetTokenizerFast",
                            "PreTrainedTokenizerFast", "TokenizersBackend"),
        "model_max_length": (5, 9, int(1e30)), "truncation_side": ("left", "right"), "padding_side": ("left", "right"),
        "clean_up_tokenization_spaces": (True, False), "do_basic_tokenize": (False, True), "never_split": (["ab"],),
        "split_special_tokens": (True, False), "clean_text": (False,), "model_input_names": (["input_ids",
                                                                                           "attention_mask"],),
        "additional_special_tokens": ([], ["ab"], ["xyz"]), "extra_special_tokens": ({}, ["ab"]),
        "max_length": (5,), "stride": (1,), "pad_to_multiple_of": (8,), "truncation": (True,), "padding": (True,),
        "add_special_tokens": (False,), "add_prefix_space": (True,), "backend": ("tokenizers",),
        "cls_token": ("[MASK]", "<mask>"), "sep_token": ("[MASK]", "<mask>"), "unk_token": ("a",),
        "chat_template": ("x",),
        "mask_token": ({"content": "<mask>", "lstrip": False, "__type": "AddedToken"},), "bos_token": ("<s>",),
        "unheard_of": (1,)}.items():
    setting("tokenizer_config", key, *values)
for key, values in {
        "max_seq_length": (3, 5, 9, 100, 1000, None), "do_lower_case": (True,),
        "processing_kwargs": ({"text": {"max_length": 5}}, {"common": {"truncation": False}}, {}),
        "tokenizer_args": ({"model_max_length": 6}, {"do_lower_case": False}, {}),
        "processor_kwargs": ({"truncation_side": "left"}, {}), "config_args": ({"hidden_act": "relu"}, {}),
        "config_kwargs": ({"layer_norm_eps": 0.1}, {"torch_dtype": "bfloat16"}, {}),
        "model_args": ({"dtype": "bfloat16"}, {"dtype": "float32"}, {"torch_dtype": "auto"}, {}),
        "model_kwargs": ({"attn_implementation": "eager"}, {}), "query_length": (5, None), "document_length": (5, None),
        "transformer_task": ("feature-extraction", "fill-mask"), "module_output_name": ("token_embeddings",),
        "unpad_inputs": (True, False, None), "query_expansion": (None,), "tokenizer_name_or_path": (None,),
        "unheard_of": (1,)}.items():
    setting("sentence", key, *values)
for key, values in {
        "truncate_dim": (1, 3, 1000, None), "similarity_fn_name": ("dot", "cosine", "euclidean", None),
        "model_type": ("SentenceTransformer",), "default_prompt_name": (None, "absent"), "unheard_of": (1,),
        "prompts": ({"query": "query: "},)}.items():
    setting("settings", key, *values)
for key, values in {
        "include_prompt": (False, True), "embedding_dimension": (64,), "pooling_mode_weightedmean_tokens": (True,),
        "pooling_mode_lasttoken": (True, False), "pooling_mode_max_tokens": (True,), "pooling_mode_cls_token": (True,),
        "pooling_mode_mean_tokens": (False,), "unheard_of": (1,),
        "pooling_mode": ("mean", "cls", "max", ["cls"], ["mean", "max"], "lasttoken")}.items():
    setting("pooling", key, *values)
for key, values in {"module_input_name": ("sentence_embedding", "token_embeddings"), "unheard_of": (1,)}.items():
    setting("module_config", key, *values)
for key, values in {"dtype": (torch.bfloat16, torch.float16), "shards": (2, 3),
                    "old_names": (True,), "pooler": (True,)}.items():
    setting("weights", key, *values)
for key, values in {"max_input_chars_per_word": (3, 200), "unk_token": ("b",),
                    "continuing_subword_prefix": ("#",)}.items():
    setting("tokenizer_model", key, *values)

absent("config", "layer_norm_eps", "pad_token_id", "hidden_act", "relative_attention_num_buckets", "architectures")
absent("tokenizer_config", "tokenizer_class", "do_lower_case", "strip_accents", "tokenize_chinese_chars",
       "model_max_length", *ROLES)
absent("sentence", "max_seq_length", "do_lower_case")
absent("pooling", "include_prompt", "word_embedding_dimension", "pooling_mode_mean_tokens", "pooling_mode_max_tokens")
absent("settings", "__version__", "prompts", "default_prompt_name", "similarity_fn_name")


def normalizer(folder):
    """tokenizer.json's normaliser, which need not be what the configuration says."""
    flags = {key: folder.random.choice(values) for key, values in {
        "lowercase": (True, False), "strip_accents": (None, True, False), "handle_chinese_chars": (True, False),
        "clean_text": (True, True, False)}.items()}
    folder.tokenizer["normalizer"] |= flags
    if folder.random.random() < 0.6:
        for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
            if folder.random.random() < 0.7:
                folder.tokenizer_config.pop(key, None)
    return f"normalizer {flags} beside {folder.tokenizer_config}"


def prefix(folder):
    """As a checkpoint with a head has it."""
    folder.weights["prefix"] = folder.kind + "."


def truncation(folder):
    r = folder.random
    folder.tokenizer["truncation"] = {"direction": r.choice(("Right", "Left")), "max_length": r.choice((4, 9, 512)),
                                      "strategy": r.choice(("LongestFirst", "OnlyFirst")), "stride": 0}
    return f"truncation {folder.tokenizer['truncation']}"


def padding(folder):
    folder.tokenizer["padding"] = {
        "strategy": "BatchLongest", "direction": folder.random.choice(("Right", "Left")), "pad_to_multiple_of": None,
        "pad_id": folder.config.get("pad_token_id", 0), "pad_type_id": 0, "pad_token": NAMES[folder.kind][2]}


def post_processor(folder):
    cls, sep = ([name, folder.vocab.index(name)] for name in NAMES[folder.kind][:2])
    kind = folder.random.choice(("BertProcessing", "RobertaProcessing"))
    folder.tokenizer["post_processor"] = {"type": kind, "sep": sep, "cls": cls}
    if kind == "RobertaProcessing":
        folder.tokenizer["post_processor"] |= {"trim_offsets": True, "add_prefix_space": False}
    if folder.random.random() < 0.2:
        folder.tokenizer["post_processor"] = None
    return f"post_processor {folder.tokenizer['post_processor']}"


def added_tokens(folder):
    r = folder.random
    contents = ("foo", "New York", "Caf\u00e9", "ab", "\u4f60", "<extra>", "a b", "[X]", "-", " a", " ab ")
    for content in r.sample(contents, r.randint(1, 3)):
        folder.add_token(content, **{flag: r.random() < 0.5 for flag in (
            "single_word", "lstrip", "rstrip", "normalized", "special")})
    return f"added_tokens {folder.tokenizer['added_tokens'][5:]}"


def special_flags(folder):
    token = folder.random.choice(folder.tokenizer["added_tokens"])
    flag = folder.random.choice(("single_word", "lstrip", "rstrip", "normalized"))
    token[flag] = not token[flag]
    return f"{flag} of {token['content']}: {token[flag]}"


def without_file(folder):
    name = folder.random.choice(("tokenizer.json", "vocab.txt", "tokenizer_config.json", "sentence_bert_config.json",
                                 "config_sentence_transformers.json", "modules.json", "2_Normalize/config.json"))
    folder.without.add(name)
    return f"without {name}"


def bare(folder):
    """As a checkpoint of transformers is."""
    folder.without |= {"modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
                       "1_Pooling/config.json", "2_Normalize/config.json"}
    change = folder.random.choice(("", "", "causal", "causal, not so", "template file", "template"))
    if "causal" in change:
        folder.config |= {"architectures": ["BertForCausalLM"], "is_causal": change == "causal"}
    if change == "template file":
        folder.more["chat_template.jinja"] = "x"
    if change == "template":
        folder.tokenizer_config["chat_template"] = "x"
    return f"bare {change}"


def with_file(folder):
    cls = NAMES[folder.kind][0]
    name, value = folder.random.choice((
        ("special_tokens_map.json", dict(zip(ROLES, NAMES[folder.kind]))),
        ("special_tokens_map.json", {"sep_token": cls}),
        ("special_tokens_map.json", {"additional_special_tokens": ["ab"]}),
        ("added_tokens.json", {"foo": len(folder.vocab)}), ("generation_config.json", {}), ("README.md", "# x\n"),
        ("tokenizer_config.json", {}), ("preprocessor_config.json", {}), ("chat_template.jinja", "x")))
    folder.more[name] = value
    return f"{name} {value}"


def modules(folder):
    """Another order, one less, one twice, or the newer names."""
    r, own = folder.random, folder.modules
    kind = r.choice(("shuffle", "without pooling", "normalize twice", "only the transformer", "new names", "normalize",
                     "paths", "dense", "pooling twice"))
    normalize = ("2_Normalize", MODULE + "Normalize")
    folder.modules = {
        "shuffle": lambda: own[:1] + r.sample(own[1:] + [normalize], len(own)), "only the transformer": lambda: own[:1],
        "without pooling": lambda: [own[0], normalize], "normalize": lambda: own[:2] + [normalize],
        "normalize twice": lambda: own[:2] + [normalize, ("3_Normalize", MODULE + "Normalize")],
        "new names": lambda: [(where, new_name(kind)) for where, kind in own],
        "paths": lambda: [own[0]] + [(where, "sentence_transformers.models." + kind.split(".")[-1] + "." +
                                      kind.split(".")[-1]) for where, kind in own[1:]],
        "dense": lambda: own[:2] + [("2_Dense", MODULE + "Dense")],
        "pooling twice": lambda: own[:2] + own[1:]}[kind]()
    return f"modules {kind}: {[m[1].split('.')[-1] for m in folder.modules]}"


def new_name(kind):
    name = kind.split(".")[-1]
    package = "sentence_transformer" if name == "Pooling" else "base"
    return f"sentence_transformers.{package}.modules.{name.lower()}.{name}"


def prompt(folder):
    folder.settings |= {"prompts": {"query": folder.random.choice(("query: ", " Ab ", "x", "[SEP] ")), "document": ""},
                        "default_prompt_name": folder.random.choice(("query", "query", "document"))}
    if folder.random.random() < 0.4:
        folder.options["--prompt-name"] = folder.random.choice(("query", "document", "document", "title"))
    return f"prompt {folder.settings['prompts']} {folder.settings['default_prompt_name']} {folder.options}"


def command(folder):
    name, value = folder.random.choice((("--max-length", "5"), ("--dtype", "bf16"), ("--batch-tokens", "16"),
                                        ("--matmul-precision", "high")))
    folder.options[name] = value
    return f"{name} {value}"


for function, times in {normalizer: 8, prefix: 2, truncation: 2, padding: 1, post_processor: 2, added_tokens: 6,
                        special_flags: 3, without_file: 6, bare: 4, with_file: 4, modules: 8, prompt: 5,
                        command: 5}.items():
    change(function, times, function in (normalizer, truncation, padding, post_processor, added_tokens, special_flags,
                                         without_file, with_file))
