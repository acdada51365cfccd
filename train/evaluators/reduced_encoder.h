// The embeddings of a sentence encoder projected onto their principal components.
#pragma once

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/evaluators/pca.h"

namespace ringlet::train {

/// Appends Dense(d, k) with the components as weight, without bias and activation: embeddings keep
/// their mean, as in the example of Sentence Transformers. With `whiten` the mean is subtracted and
/// each component divided by its standard deviation, and Normalize follows. The transformer is
/// shared with `encoder`; truncate_dim is unset. InputError with `whiten` where a component has no
/// variance.
models::SentenceEncoder reduced_encoder(const models::SentenceEncoder& encoder,
                                        const PrincipalComponents& components, bool whiten);

}  // namespace ringlet::train
