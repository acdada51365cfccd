#include "ringlet/train/cli/trained_head.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/nn/module_file.h"

namespace ringlet::cli {
namespace {

constexpr const char* kHead = "classifier.safetensors";

nn::Module& classifier_of(models::SoftmaxLoss& loss) {
  nn::Module* found = nullptr;
  loss.visit([&](const std::string& name, nn::Module& module) {
    if (name == "classifier") found = &module;
  });
  RINGLET_CHECK(found, "[classifier] the loss has none");
  return *found;
}

}  // namespace

void save_head(models::SoftmaxLoss& loss, const std::filesystem::path& folder) {
  nn::save_module(classifier_of(loss), folder / kHead);
}

int head_labels(const std::filesystem::path& folder) {
  const std::filesystem::path path = models::cached_folder(folder) / kHead;
  if (!path_exists(path)) return 0;
  const SafeTensors file = SafeTensors::open(path);
  if (!file.contains("weight") || file.shape("weight").dim() != 2)
    fail_input(path.string(), ": expected a tensor 'weight' of two dimensions");
  return static_cast<int>(file.shape("weight")[0]);
}

std::shared_ptr<models::SoftmaxLoss> read_head(const std::filesystem::path& folder,
                                               const models::SentenceEncoder& encoder) {
  const auto loss = std::make_shared<models::SoftmaxLoss>(encoder, head_labels(folder));
  nn::load_module(classifier_of(*loss), models::cached_folder(folder) / kHead);
  return loss;
}

}  // namespace ringlet::cli
