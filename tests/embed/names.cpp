// A program with names of its own under `using namespace ringlet`: none is ambiguous.
#include <filesystem>
#include <string>
#include <string_view>

#include "ringlet.h"

using namespace ringlet;

#define OWN(Name)  \
  struct Name {    \
    int value = 1; \
  };               \
  static_assert(sizeof(Name) == sizeof(int)); /* an ambiguous name does not compile */

OWN(Accumulator)
OWN(Backend)
OWN(BadInput)
OWN(Batch)
OWN(Block)
OWN(Clip)
OWN(Dataset)
OWN(Distribution)
OWN(Download)
OWN(Dropout)
OWN(Event)
OWN(Generator)
OWN(Kernel)
OWN(Layer)
OWN(Metrics)
OWN(Module)
OWN(Names)
OWN(Notes)
OWN(Range)
OWN(Route)
OWN(Sample)
OWN(Span)
OWN(Stream)
OWN(Task)
OWN(Weight)

std::string read_file(const std::filesystem::path& path) { return path.string(); }
bool path_exists(const std::filesystem::path& path) { return path.empty(); }
std::string quote(std::string_view text) { return std::string(text); }
std::string one_line(std::string_view text) { return quote(text); }
void synchronize(Device) {}

int main() {
  const std::filesystem::path nowhere(one_line(std::string_view()));
  synchronize(Device{});
  return path_exists(read_file(nowhere)) ? 0 : 1;
}
