// Exercises of lesson 3: a training step.
#include "ringlet.h"

using namespace ringlet;

// 1. One step of gradient descent on each parameter of `module`, without an optimizer.
void descend(nn::Module& module, double rate) {
  for (const nn::Parameter& parameter : module.parameters()) {
    // gap: copy_ a new tensor into parameter.mutable_tensor(): the old one less rate times grad().
    parameter.mutable_tensor().copy_(parameter.tensor() - parameter.grad() * rate);
    parameter.zero_grad();
    // end: static_cast<void>(rate + parameter.numel());
  }
}

// 2. The share of rows with their largest logit at the label: logits (N, C), labels (N) i64.
double accuracy(const Tensor& logits, const Tensor& labels) {
  // gap: argmax(logits, -1) has the guesses; eq has 1 where they are right.
  return mean(eq(argmax(logits, -1), labels).to(DType::f64)).item<double>();
  // end: return 0;
}

// 3. Trains `line` on x (N, 2), y (N, 1) by the mean squared error. Returns the loss of each step.
std::vector<float> train_line(nn::Linear& line, const Tensor& x, const Tensor& y, int steps) {
  std::vector<float> losses;
  // gap: train::Sgd with .lr = 0.1; each step has a forward, a backward, a step and a zero_grad.
  train::Sgd optimizer(line, {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    const Variable loss = autograd::mean(autograd::square(line(Variable(x)) - Variable(y)));
    losses.push_back(loss.item());
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  // end:
  return losses;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "gradient descent by hand") {
  nn::Linear line(1, 1);
  line.parameter("weight").mutable_tensor().fill_(2);
  line.parameter("bias").mutable_tensor().fill_(1);
  for (int step = 1; step <= 2; ++step) {  // y = w x + b at x = 3: dy/dw = 3, dy/db = 1
    autograd::sum(line(Variable(tensor<float>({3}, {1, 1})))).backward();
    descend(line, 0.1);
    const std::string after = str(" after ", step, " steps");
    expect("the weight" + after, line.parameter("weight").tensor().item(), 2 - 0.3f * step,
           "against the gradient; zero_grad() forgets it, or the next backward adds to it");
    expect("the bias" + after, line.parameter("bias").tensor().item(), 1 - 0.1f * step,
           "all parameters move, and by their own gradients");
  }
}

EXERCISE(2, "accuracy") {
  const Tensor logits = tensor<float>({9, 1, 2, 0, 5, 1, 3, 4, 5, 7, 8, 1}, {4, 3});
  expect("three right of four", accuracy(logits, tensor<std::int64_t>({0, 1, 2, 0})), 0.75,
         "compare the guesses with the labels, and divide by their number");
}

EXERCISE(3, "a training loop") {
  manual_seed(3);
  const Tensor x = normal({16, 2});
  const Tensor y = sum(x * tensor({2.f, -1.f}), {1}, true) + 1;  // 2 x1 - x2 + 1
  nn::Linear line(2, 1), copy(2, 1);
  copy.parameter("weight").mutable_tensor().copy_(line.parameter("weight").tensor());
  copy.parameter("bias").mutable_tensor().copy_(line.parameter("bias").tensor());
  const std::vector<float> losses = train_line(line, x, y, 60);
  expect("the number of losses", losses.size(), 60, "one loss a step");
  expect("the first loss", losses[0], mean(square(copy(Variable(x)).tensor() - y)).item(),
         "the mean of (prediction - y)²");
  expect("a loss under 0.01 at the end", losses.back() < 0.01f, true,
         "it must fall from step to step; print it");
  expect("the learned weight", line.parameter("weight").tensor().to_vector()[0] > 1.9f, true,
         "the optimizer must have moved the weight from its start towards 2");
  for (int step = 0; step < 60; ++step) {
    autograd::mean(autograd::square(copy(Variable(x)) - Variable(y))).backward();
    descend(copy, 0.1);
  }
  expect("the bias after 60 steps", line.parameter("bias").tensor().item(),
         copy.parameter("bias").tensor().item(), "the rate is 0.1, and zero_grad() ends each step");
}
