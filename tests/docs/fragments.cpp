// The fragments of the docs, each in the context that its page describes.
#include <iostream>

#include "ringlet.h"
using namespace ringlet;

static void collectives() {
#include "collectives.inc"
}

static void embed() {
  auto model = models::SentenceEncoder::from_pretrained("FOLDER");
  nn::Linear head(2, 1);
#include "embed.inc"
}

static void devices() {
  const Device gpu0 = Device::parse("cpu:0"), gpu1 = Device::parse("cpu:1");
  const auto encoder = models::Transformer::create({.vocab_size = 10, .hidden_size = 12});
  nn::Module& model = *encoder;
#include "devices.inc"
}

int main() try {
  collectives();
  embed();
  devices();
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
