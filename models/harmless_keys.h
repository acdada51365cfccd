// Keys of a model folder's JSON files that change no embedding: names, versions, heads, generation
// of text, memory. A key that is neither read nor listed here is named or refused.
// For source files only; no public header includes it.
#pragma once

namespace ringlet::models {

/// config.json, of transformers' releases 2 to 5.
inline constexpr const char* kHarmlessConfigKeys[] = {
    // names, versions, what loads the weights; dtypes are looked at apart
    "_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "architectures",
    "dtype", "torch_dtype", "use_bfloat16", "torchscript", "tf_legacy_loss", "tokenizer_class",
    "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
    // outputs and memory
    "return_dict", "output_hidden_states", "output_attentions", "output_past", "use_cache",
    "gradient_checkpointing", "chunk_size_feed_forward", "tie_word_embeddings",
    "tie_encoder_decoder",
    // ids of tokens with a role, which the tokenizer holds
    "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
    "decoder_start_token_id",
    // heads and poolers
    "num_labels", "id2label", "label2id", "problem_type", "finetuning_task", "task_specific_params",
    "classifier_dropout", "classifier_dropout_prob", "qa_dropout", "seq_classif_dropout",
    "tie_weights_", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "directionality", "cross_attention_hidden_size",
    // generation of text
    "prefix", "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "epsilon_cutoff", "eta_cutoff", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_lookbehind",
    "target_lookbehind"};

/// An entry of modules.json: the list's order counts, not "idx"; "kwargs" are names of arguments
/// that a caller may pass on to the module.
inline constexpr const char* kHarmlessModuleKeys[] = {"idx", "kwargs"};

/// config_sentence_transformers.json; "requirements" are releases of Python packages.
inline constexpr const char* kHarmlessSentenceConfigKeys[] = {"__version__", "requirements"};

/// The pooling's config.json: both are names of the width of the transformer.
inline constexpr const char* kHarmlessPoolingKeys[] = {"word_embedding_dimension",
                                                       "embedding_dimension"};

/// sentence_bert_config.json: memory.
inline constexpr const char* kHarmlessTransformerKeys[] = {"unpad_inputs"};
/// Its "model_args" or "model_kwargs": how Python loads and computes.
inline constexpr const char* kHarmlessModelKeys[] = {"attn_implementation", "device_map",
                                                     "low_cpu_mem_usage",   "use_safetensors",
                                                     "add_pooling_layer",   "trust_remote_code"};

/// Its "processing_kwargs": padding, which packed batches have none of, and inputs other than text.
inline constexpr const char* kHarmlessCallKeys[] = {"padding", "pad_to_multiple_of"};
inline constexpr const char* kHarmlessInputs[] = {"audio", "image", "video", "chat_template"};
/// Where Python loads from, which is the folder.
inline constexpr const char* kHarmlessLoadingKeys[] = {
    "subfolder",        "token",    "cache_dir",         "revision",
    "local_files_only", "use_fast", "trust_remote_code", "force_download"};

/// tokenizer_config.json and special_tokens_map.json, of transformers' releases 2 to 5.
inline constexpr const char* kHarmlessTokenizerKeys[] = {
    // names, versions, files
    "name_or_path", "tokenizer_file", "vocab_file", "special_tokens_map_file", "processor_class",
    "auto_map", "backend", "is_local", "local_files_only", "is_fast", "use_fast", "from_slow",
    "_commit_hash", "transformers_version",
    // what BERT's and MPNet's classes of release 5 do not look at
    "do_basic_tokenize", "never_split", "clean_text", "sp_model_kwargs", "add_bos_token",
    "add_eos_token", "wordpieces_prefix", "basic_tokenizer", "trim_offsets",
    // defaults of calls, which Sentence Transformers overrides; padding; decoding; chats
    "max_length", "stride", "truncation_strategy", "truncation", "padding", "pad_to_multiple_of",
    "pad_token_type_id", "model_input_names", "clean_up_tokenization_spaces", "errors",
    "chat_template", "verbose"};

/// model.safetensors.index.json: sizes.
inline constexpr const char* kHarmlessIndexKeys[] = {"metadata"};

}  // namespace ringlet::models
