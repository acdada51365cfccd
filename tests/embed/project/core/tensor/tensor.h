// This project's tensor: samples of a wave. Its path is also the path of a header of ringlet.
#pragma once

#include <cmath>
#include <vector>

namespace lab {

struct Tensor {
  std::vector<float> values;
};

/// sin(3 t) at `count` places t in [-2, 2], and the places.
inline void sample(int count, Tensor& places, Tensor& wave) {
  for (int i = 0; i < count; ++i) {
    const float t = -2.0f + 4.0f * static_cast<float>(i) / static_cast<float>(count - 1);
    places.values.push_back(t);
    wave.values.push_back(std::sin(3.0f * t));
  }
}

}  // namespace lab
