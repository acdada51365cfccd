// Strategies of our own: the largest gradients alone, with error feedback, and local SGD. Both
// learn what DDP learns and send a part of its bytes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>

#include "ringlet.h"

namespace ag = ringlet::autograd;
using namespace ringlet;

namespace {

constexpr int kRanks = 2, kSteps = 120, kInterval = 8;

/// Top-k with error feedback, as in Stich et al., Sparsified SGD with memory, 2018. A rank sends
/// the largest k gradients of a bucket, and adds the rest to those of the next step.
class TopK {
 public:
  explicit TopK(double share) : share_(share) {}

  std::function<void()> operator()(const comm::Group& group, const train::GradientBucket& bucket) {
    Tensor left = left_.try_emplace(bucket.index, zeros_like(bucket.gradients)).first->second;
    axpby(left, 1, bucket.gradients, 1);
    const auto k = std::max<std::int64_t>(1, static_cast<std::int64_t>(share_ * left.numel()));
    const Tensor index = largest(left, k);
    const Tensor values = index_select(left, 0, index);
    index_add_(left, 0, index, scale(values, -1));  // sent: nothing is left of them
    const comm::Pieces pieces = comm::even_pieces(k * group.size(), group.size());
    const Tensor all_values = empty({k * group.size()}),
                 all_indices = empty({k * group.size()}, DType::i64);
    const comm::Work sent = group.all_gather(all_values, values, pieces),
                     where = group.all_gather(all_indices, index, pieces);
    return [=] {
      sent.wait();
      where.wait();
      Tensor sum = bucket.gradients;
      sum.zero_();
      index_add_(sum, 0, all_indices, all_values);  // in rank order: the same bits on every rank
    };
  }

 private:
  static Tensor largest(const Tensor& x, std::int64_t k) {
    const std::vector<float> values = x.to_vector();
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::nth_element(order.begin(), order.begin() + k - 1, order.end(), [&](auto a, auto b) {
      const float one = std::abs(values[static_cast<std::size_t>(a)]);
      const float other = std::abs(values[static_cast<std::size_t>(b)]);
      return one != other ? one > other : a < b;
    });
    order.resize(static_cast<std::size_t>(k));
    return tensor(order, {k});
  }

  double share_;
  std::map<std::size_t, Tensor> left_;  // by bucket
};

/// Is a point inside the circle? Two layers.
struct Net : nn::Layer<Net> {
  Net() {
    first = register_module("first", std::make_shared<nn::Linear>(2, 512));
    second = register_module("second", std::make_shared<nn::Linear>(512, 2));
  }
  Variable forward(const Variable& x) { return (*second)(ag::gelu((*first)(x))); }
  std::shared_ptr<nn::Linear> first, second;
};

/// This rank's points and their classes.
struct Points {
  explicit Points(int rank) {
    const GeneratorGuard guard({7, static_cast<std::uint64_t>(rank), 0});
    x = normal({128, 2});
    std::vector<std::int32_t> inside;
    for (std::int64_t i = 0; i < 128; ++i) inside.push_back(sum(square(x[i])).item() < 1.4 ? 1 : 0);
    labels = tensor(inside, {128});
  }
  Tensor x, labels;
};

/// The mean loss over this rank's points: with `average`, the gradient is that of all points.
Variable loss_of(Net& net, const Points& points) {
  return ag::cross_entropy(net(Variable(points.x)), points.labels, 128);
}

struct Trained {
  float loss = 0;
  std::vector<float> parameters;
  std::uint64_t bytes = 0;
};

/// Every `interval` steps all ranks go on from the mean of their parameters.
void average_parameters(const nn::Module& net, const comm::Group& world) {
  std::vector<Tensor> parameters;
  for (const nn::Parameter& parameter : net.parameters())
    parameters.push_back(parameter.mutable_tensor());
  world.all_reduce(parameters, ReduceOp::mean).wait();
}

Trained train_rank(const std::string& way, const comm::Group& world) {
  manual_seed(1);
  Net net;
  const Points points(world.rank());
  TopK top_k(0.05);
  std::optional<train::DistributedDataParallel> ddp;
  if (way == "ddp") ddp.emplace(net, world, train::DistributedDataParallelOptions{.average = true});
  if (way == "top-k")
    ddp.emplace(net, world,
                train::DistributedDataParallelOptions{.average = true,
                                                      .communication_hook = std::ref(top_k)});
  train::Sgd optimizer(net, {.lr = 0.3});
  const auto before = world.stats().bytes_sent;
  for (int step = 1; step <= kSteps; ++step) {
    loss_of(net, points).backward();
    optimizer.step();
    optimizer.zero_grad();
    if (way == "local" && step % kInterval == 0) average_parameters(net, world);
  }
  Trained trained;
  trained.bytes = static_cast<std::uint64_t>(world.stats().bytes_sent - before);
  const ag::NoGrad no_grad;
  const Tensor loss = loss_of(net, points).tensor().clone();
  world.all_reduce(loss, ReduceOp::mean).wait();
  trained.loss = loss.item();
  for (const nn::Parameter& parameter : net.parameters())
    for (const float value : parameter.tensor().to_vector()) trained.parameters.push_back(value);
  return trained;
}

Trained train_ranks(const std::string& way) {
  std::vector<Trained> ranks(kRanks);
  comm::launch(
      [&](const comm::Group& world) {
        ranks[static_cast<std::size_t>(world.rank())] = train_rank(way, world);
      },
      kRanks);
  std::cout << way << ": loss " << ranks[0].loss << ", " << ranks[0].bytes << " bytes\n";
  if (ranks[0].parameters != ranks[1].parameters) throw Error(way + ": the ranks differ");
  return ranks[0];
}

}  // namespace

int main() {
  const Trained ddp = train_ranks("ddp"), top_k = train_ranks("top-k"),
                local = train_ranks("local");
  const bool fewer = 4 * top_k.bytes < ddp.bytes && 4 * local.bytes < ddp.bytes;
  const bool own_way = top_k.parameters != ddp.parameters && local.parameters != ddp.parameters;
  const bool good = top_k.loss < 1.2f * ddp.loss && local.loss < 1.2f * ddp.loss && ddp.loss < 0.4f;
  return fewer && own_way && good ? 0 : 1;
}
