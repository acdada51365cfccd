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

int main() try {
  collectives();
  embed();
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
