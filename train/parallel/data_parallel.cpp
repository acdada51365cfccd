#include "ringlet/train/parallel/data_parallel.h"

#include "ringlet/core/device/without_link.h"
#include "ringlet/train/parallel/replicas.h"

namespace ringlet::train {
namespace {

// Parameters go from the first device to the others, gradients back.
void note_links(const std::vector<Device>& devices, const DataParallelOptions& options) {
  if (!options.on_note) return;
  for (const Device device : devices) {
    Backend& memory = backend(device.type);
    if (device == devices[0]) continue;
    if (!memory.has_link(devices[0], device))
      return options.on_note("[dp] " + without_link(devices[0], device));
    if (!memory.has_link(device, devices[0]))
      return options.on_note("[dp] " + without_link(device, devices[0]));
  }
}

}  // namespace

DataParallel::DataParallel(nn::Module& module, std::vector<Device> devices, Options options)
    : replicas_(
          std::make_shared<Replicas>(module, std::move(devices), options.timed, options.average)) {
  note_links(replicas_->devices(), options);
}

DataParallel::~DataParallel() = default;

Variable DataParallel::sum(const Part& part) {
  return replicas_->sum([&](std::size_t d) { return part(*replicas_->modules()[d], d); });
}

const std::shared_ptr<int>& DataParallel::paused() const { return replicas_->paused(); }
double DataParallel::seconds_exchanging() const { return replicas_->seconds_exchanging(); }

}  // namespace ringlet::train
