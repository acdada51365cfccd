#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/core/io/safetensors_header.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderAlignment = 8;

std::string header_text(const std::vector<SafeTensorsWriter::Entry>& entries,
                        const SafeTensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[safetensors::kMetadata] = metadata;
  std::size_t begin = 0;
  for (const auto& entry : entries) {
    RINGLET_CHECK(entry.name != safetensors::kMetadata && !header.contains(entry.name),
                  "[safetensors] tensor name ", quote(entry.name), " is reserved or used twice");
    const std::size_t end =
        begin + static_cast<std::size_t>(entry.shape.numel()) * itemsize(entry.dtype);
    header[entry.name] = {
        {"dtype", safetensors::format_name(entry.dtype)},
        {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
        {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  // Spaces align the data, as the format allows.
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

void order_by_width(std::vector<SafeTensorsWriter::Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return itemsize(a.dtype) > itemsize(b.dtype);
  });
}

/// The start of a file: the length of the header, then the header.
std::string start_text(const std::vector<SafeTensorsWriter::Entry>& entries,
                       const SafeTensorsMetadata& metadata) {
  const std::string header = header_text(entries, metadata);
  std::string start(safetensors::kLengthBytes, '\0');
  for (std::size_t i = 0; i < safetensors::kLengthBytes; ++i)
    start[i] = static_cast<char>(header.size() >> (8 * i));
  return start + header;
}

}  // namespace

// ---- one writer ---------------------------------------------------------------------------

SafeTensorsWriter::SafeTensorsWriter(const fs::path& path, std::vector<Entry> entries,
                                     const SafeTensorsMetadata& metadata)
    : entries_(std::move(entries)), file_(std::make_unique<AtomicFile>(path)) {
  order_by_width(entries_);
  file_->write(start_text(entries_, metadata));
}

SafeTensorsWriter::~SafeTensorsWriter() = default;

void SafeTensorsWriter::write(const std::string& name, const Tensor& tensor) {
  RINGLET_CHECK(next_ < entries_.size(), "[safetensors] ", quote(name), " was not announced");
  const Entry& expected = entries_[next_];
  RINGLET_CHECK_EQ(name, expected.name, "[safetensors] the next tensor");
  RINGLET_CHECK_EQ(tensor.dtype(), expected.dtype, "[safetensors] dtype of ", quote(name));
  RINGLET_CHECK_EQ(tensor.shape(), expected.shape, "[safetensors] shape of ", quote(name));
  const Tensor host = tensor.device().type == DeviceType::cpu ? tensor : tensor.to(Device{});
  file_->write(std::span(host.bytes(), host.nbytes()));
  ++next_;
}

void SafeTensorsWriter::commit() {
  RINGLET_CHECK(next_ == entries_.size(), "[safetensors] ", next_, " of ", entries_.size(),
                " tensors were written");
  file_->commit();
}

void save_safetensors(const fs::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata) {
  std::vector<SafeTensorsWriter::Entry> entries;
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype(), tensor.shape()});
    by_name.emplace(name, &tensor);
  }
  SafeTensorsWriter writer(path, std::move(entries), metadata);
  for (const auto& entry : writer.order()) writer.write(entry.name, *by_name.at(entry.name));
  writer.commit();
}

// ---- several ------------------------------------------------------------------------------

SafeTensorsParts::SafeTensorsParts(const fs::path& path,
                                   std::vector<SafeTensorsWriter::Entry> entries, Role role)
    : path_(path) {
  order_by_width(entries);
  const std::string start = start_text(entries, {{"format", "pt"}});
  std::size_t end = start.size();
  for (const auto& [name, dtype, shape] : entries) {
    places_[name] = {end, shape.numel(), dtype};
    end += static_cast<std::size_t>(shape.numel()) * itemsize(dtype);
  }
  const int flags = role == Role::creates ? O_CREAT | O_EXCL : 0;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd_ < 0)
    fail_input(
        path_.string(), ": cannot write: ", std::strerror(errno),
        role == Role::joins ? " (all ranks write to it: the folder must be one for all)" : "");
  if (role == Role::joins) return;
  try {
    int error = EINTR;
    while (error == EINTR) error = ::posix_fallocate(fd_, 0, static_cast<off_t>(end));
    if (error != 0)
      fail_input(path_.string(), ": no room for ", end, " bytes: ", std::strerror(error));
    write_at(0, reinterpret_cast<const std::byte*>(start.data()), start.size());
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafeTensorsParts::~SafeTensorsParts() { ::close(fd_); }

void SafeTensorsParts::write_at(std::size_t offset, const std::byte* data, std::size_t nbytes) {
  while (nbytes > 0) {
    const ssize_t written = ::pwrite(fd_, data, nbytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
    data += written;
    offset += static_cast<std::size_t>(written);
    nbytes -= static_cast<std::size_t>(written);
  }
}

void SafeTensorsParts::write(const std::string& name, std::int64_t begin, const Tensor& elements) {
  const auto place = places_.find(name);
  RINGLET_CHECK(place != places_.end(), "[safetensors] ", quote(name), " was not announced");
  const auto& [offset, numel, dtype] = place->second;
  RINGLET_CHECK_EQ(elements.dtype(), dtype, "[safetensors] dtype of ", quote(name));
  RINGLET_CHECK(begin >= 0 && begin + elements.numel() <= numel, "[safetensors] elements ", begin,
                " to ", begin + elements.numel(), " of ", quote(name), ", which has ", numel);
  const Tensor host = elements.device().type == DeviceType::cpu ? elements : elements.to(Device{});
  write_at(offset + static_cast<std::size_t>(begin) * itemsize(dtype), host.bytes(), host.nbytes());
}

void SafeTensorsParts::sync() {
  while (::fsync(fd_) != 0)
    if (errno != EINTR) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
}

}  // namespace ringlet
