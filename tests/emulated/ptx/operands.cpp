#include "operands.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <optional>

namespace ringlet::emulated {
namespace {

std::size_t up_to(std::size_t nbytes, std::size_t alignment) {
  return alignment > 1 ? (nbytes + alignment - 1) / alignment * alignment : nbytes;
}

std::optional<std::uint64_t> number(const std::string& text, std::size_t bytes) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
    const auto bits = static_cast<std::uint32_t>(std::stoul(text.substr(2), nullptr, 16));
    if (bytes != 8) return bits;
    return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
  }
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D'))
    return std::stoull(text.substr(2), nullptr, 16);
  if (text == "WARP_SZ") return kLanes;
  if (text.empty() || (!std::isdigit(static_cast<unsigned char>(text[0])) && text[0] != '-'))
    return std::nullopt;
  if (text[0] == '-') return 0 - std::stoull(text.substr(1), nullptr, 0);
  return std::stoull(text, nullptr, 0);
}

std::uint64_t cut(std::uint64_t value, std::size_t bytes) {
  return bytes >= 8 ? value : value & ((std::uint64_t{1} << 8 * bytes) - 1);
}

}  // namespace

void Operands::declare_parameter(const Declaration& declared) {
  const std::size_t bytes = bytes_of(declared.type);
  kernel_.parameter_bytes =
      up_to(kernel_.parameter_bytes, std::max(declared.align, declared.is_array ? 1 : bytes));
  const Parameter parameter{kernel_.parameter_bytes, bytes * declared.count};
  symbols[declared.name] = {Space::parameter, parameter.offset};
  kernel_.parameters.push_back(parameter);
  kernel_.parameter_bytes += parameter.bytes;
}

void Operands::declare(const Declaration& declared) {
  const std::size_t bytes = bytes_of(declared.type);
  if (declared.space == ".reg") {
    const Register made{kNone, static_cast<std::uint8_t>(bytes)};
    if (declared.count == 1) registers_.back()[declared.name] = made;
    for (std::size_t i = 0; declared.count > 1 && i < declared.count; ++i)
      registers_.back()[declared.name + std::to_string(i)] = made;
    return;
  }
  // Call parameters live in local memory: calls are inlined.
  const bool shared = declared.space == ".shared";
  if (!shared && declared.space != ".local" && declared.space != ".param")
    throw Undecodable("a declaration of " + declared.space);
  std::size_t& used = shared ? kernel_.shared_bytes : kernel_.local_bytes;
  used = up_to(used, std::max(declared.align, bytes));
  symbols[declared.name] = {shared ? Space::shared : Space::local, used};
  used += bytes * declared.count;
}

void Operands::place_dynamic() {
  kernel_.shared_bytes = up_to(kernel_.shared_bytes, 16);
  for (const std::string& name : dynamic_) {
    const auto [found, fresh] =
        symbols.try_emplace(name, Symbol{Space::shared, kernel_.shared_bytes});
    if (!fresh && found->second.address != kernel_.shared_bytes)
      throw Undecodable("shared memory declared after " + name);
  }
}

Operand Operands::new_register(std::uint8_t bytes) {
  const auto at = static_cast<Operand>(kernel_.register_words);
  kernel_.register_words += bytes == 0 ? 2 : bytes == 8 ? 2 * kLanes : kLanes;
  return at;
}

Register* Operands::find_register(const std::string& name) {
  for (auto scope = registers_.rbegin(); scope != registers_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found == scope->end()) continue;
    if (found->second.at == kNone) found->second.at = new_register(found->second.bytes);
    return &found->second;
  }
  return nullptr;
}

Register& Operands::named_register(const std::string& name) {
  Register* const found = find_register(name);
  if (!found) throw Undecodable("no register " + name);
  return *found;
}

Operand Operands::constant(std::uint64_t value, std::size_t bytes) {
  const auto [found, fresh] = constants_.try_emplace({value, bytes}, kNone);
  if (!fresh) return found->second;
  auto& words = kernel_.constants;
  found->second = -1 - static_cast<Operand>(words.size());
  if (bytes == 0) {
    words.insert(words.end(), 2, value ? kAllLanes : 0);
    return found->second;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    words.push_back(static_cast<std::uint32_t>(value));
    if (bytes == 8) words.push_back(static_cast<std::uint32_t>(value >> 32));
  }
  return found->second;
}

Operand Operands::operand(const std::string& text, std::size_t bytes) {
  if (const auto value = number(text, bytes))
    return constant(bytes == 0 ? *value : cut(*value, bytes), bytes);
  if (const auto symbol = symbols.find(text); symbol != symbols.end())
    return constant(symbol->second.address, bytes);
  const Register& found = named_register(text);
  const auto cell = [](std::size_t width) { return width == 0 ? 0 : width == 8 ? 8 : 4; };
  if (cell(found.bytes) != cell(bytes))
    throw Undecodable("register " + text + " of " + std::to_string(found.bytes) + " bytes, where " +
                      std::to_string(bytes) + " are needed");
  return found.at;
}

void Operands::set_address(Instruction& made, const std::string& text) {
  const std::string inside = text.substr(1, text.size() - 2);
  const auto plus = inside.find('+', 1);
  const std::string base = inside.substr(0, plus);
  if (plus != std::string::npos)
    made.offset = static_cast<std::int64_t>(*number(inside.substr(plus + 1), 8));
  if (const auto symbol = symbols.find(base); symbol != symbols.end()) {
    made.offset += static_cast<std::int64_t>(symbol->second.address);
    if (made.access.space == Space::parameter) made.access.space = symbol->second.space;
  } else if (const auto value = number(base, 8)) {
    made.offset += static_cast<std::int64_t>(*value);
  } else {
    const Register& found = named_register(base);
    made.in[0] = found.at;
    made.access.wide_address = found.bytes == 8;
  }
}

}  // namespace ringlet::emulated
