#include "source.h"

#include <cctype>
#include <stdexcept>

namespace ringlet::emulated {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string without_comments(const std::string& text) {
  std::string kept;
  kept.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) i = text.find('\n', i);
    if (text.compare(i, 2, "/*") == 0) i = text.find("*/", i) + 2;
    if (i >= text.size()) break;
    kept += text[i];
  }
  return kept;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (!is_space(c))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Reads `name`, `name[12]` or `name<12>`.
void read_name(Declaration& declared, const std::string& text) {
  const auto open = text.find_first_of("[<");
  declared.name = text.substr(0, open);
  if (open == std::string::npos) return;
  declared.is_array = text[open] == '[';
  declared.is_extern = text[open + 1] == ']';
  declared.count = declared.is_extern ? 0 : std::stoul(text.substr(open + 1));
}

std::vector<Declaration> parse_declarations(std::string text) {
  Declaration declared;
  if (const auto equals = text.find('='); equals != std::string::npos) {
    std::string values = text.substr(equals + 1);
    std::erase_if(values, [](char c) { return c == '{' || c == '}'; });
    for (const std::string& value : split_operands(values))
      declared.values.push_back(std::stoull(value, nullptr, 0));
    text.resize(equals);
  }
  std::vector<Declaration> all;
  const auto words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == ".align") {
      declared.align = std::stoul(words[++i]);
    } else if (word == ".extern" || word == ".visible" || word == ".weak" || word == ".ptr") {
    } else if (word[0] == '.' && declared.space.empty()) {
      declared.space = word;
    } else if (word[0] == '.') {
      declared.type = word.substr(1);
    } else {
      for (const std::string& name : split_operands(word)) {
        read_name(declared, name);
        all.push_back(declared);
      }
    }
  }
  return all;
}

std::vector<Declaration> parse_parameters(const std::string& text) {
  std::vector<Declaration> all;
  for (const std::string& part : split(text, ','))
    for (Declaration& declared : parse_declarations(part)) all.push_back(std::move(declared));
  return all;
}

std::size_t closing_brace(const std::string& text, std::size_t open) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  throw std::runtime_error("PTX: a brace that nothing closes");
}

class BodyParser {
 public:
  explicit BodyParser(const std::string& text) : text_(text) {}

  std::vector<Statement> parse() {
    while (skip_space()) {
      if (text_[at_] == '{' || text_[at_] == '}') {
        add(text_[at_] == '{' ? Statement::Kind::open_scope : Statement::Kind::close_scope);
        ++at_;
      } else if (text_.compare(at_, 4, ".loc") == 0 && is_space(text_[at_ + 4])) {
        read_line_directive();
      } else if (!read_label()) {
        read_statement();
      }
    }
    return std::move(statements_);
  }

 private:
  bool skip_space() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == ';')) ++at_;
    return at_ < text_.size();
  }
  Statement& add(Statement::Kind kind) {
    statements_.push_back({kind, line_});
    return statements_.back();
  }
  void read_line_directive() {
    const auto end = std::min(text_.find('\n', at_), text_.size());
    const auto words = words_of(text_.substr(at_, end - at_));
    line_ = {static_cast<std::uint32_t>(std::stoul(words.at(1))),
             static_cast<std::uint32_t>(std::stoul(words.at(2)))};
    at_ = end;
  }
  bool read_label() {
    const auto end = text_.find_first_of(" \t\r\n:;", at_);
    if (end == std::string::npos || text_[end] != ':') return false;
    add(Statement::Kind::label).opcode = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  void read_statement() {
    const auto end = text_.find(';', at_);
    if (end == std::string::npos)
      throw std::runtime_error("PTX: no ; after " + text_.substr(at_, 60));
    const std::string text = text_.substr(at_, end - at_);
    at_ = end + 1;
    if (text.starts_with(".pragma")) return;
    if (text[0] == '.') {
      add(Statement::Kind::declaration).declared = parse_declarations(text);
      return;
    }
    read_instruction(add(Statement::Kind::instruction), text);
  }
  static void read_instruction(Statement& to, std::string text) {
    if (text[0] == '@') {
      const auto end = text.find_first_of(" \t\r\n");
      to.negated = text[1] == '!';
      to.guard = text.substr(to.negated ? 2 : 1, end - (to.negated ? 2 : 1));
      text = text.substr(text.find_first_not_of(" \t\r\n", end));
    }
    const auto end = text.find_first_of(" \t\r\n");
    to.opcode = text.substr(0, end);
    if (end != std::string::npos) to.operands = split_operands(text.substr(end));
  }

  const std::string& text_;
  std::size_t at_ = 0;
  SourceLine line_{};
  std::vector<Statement> statements_;
};

Function parse_function(const std::string& head, std::string body) {
  Function function;
  const auto entry = head.find(".entry");
  function.is_entry = entry != std::string::npos;
  auto at = function.is_entry ? entry + 6 : head.find(".func") + 5;
  const auto parenthesised = [&] {
    const auto open = head.find('(', at), close = head.find(')', open);
    at = close + 1;
    return head.substr(open + 1, close - open - 1);
  };
  if (words_of(head.substr(at, head.find_first_not_of(" \t\r\n", at) + 1 - at)).front() == "(")
    function.results = parse_parameters(parenthesised());
  function.name = words_of(head.substr(at, head.find('(', at) - at)).front();
  function.parameters = parse_parameters(parenthesised());
  if (const auto most = head.find(".maxntid", at); most != std::string::npos) {
    const auto end = head.find_first_of(".\n", most + 1);
    for (const std::string& count : split(head.substr(most + 8, end - most - 8), ','))
      function.most_threads.push_back(static_cast<std::uint32_t>(std::stoul(count)));
  }
  function.text = std::move(body);
  return function;
}

void read_file(ModuleSource& module, const std::string& line) {
  const auto open = line.find('"'), close = line.find('"', open + 1);
  module.files[static_cast<std::uint32_t>(std::stoul(line.substr(5)))] =
      line.substr(open + 1, close - open - 1);
}

}  // namespace

std::vector<Statement> Function::body() const { return BodyParser(text).parse(); }

std::size_t bytes_of(const std::string& type) {
  if (type == "pred") return 0;
  if (type.ends_with("64")) return 8;
  if (type.ends_with("32") || type.ends_with("x2")) return 4;
  return type.ends_with("16") ? 2 : 1;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == by)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<std::string> split_operands(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else if (!is_space(c))
      parts.back() += c;
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

ModuleSource parse_module(const std::string& source) {
  const std::string text = without_comments(source);
  ModuleSource module;
  for (std::size_t at = 0;;) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at >= text.size()) return module;
    const auto line_end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, line_end - at);
    if (line.starts_with(".section")) {
      at = closing_brace(text, at) + 1;
    } else if (line.starts_with(".file")) {
      read_file(module, line);
      at = line_end;
    } else if (line.starts_with(".target")) {
      module.architecture = std::stoi(line.substr(line.find("sm_") + 3));
      at = line_end;
    } else if (line.starts_with(".version") || line.starts_with(".address_size") ||
               line.starts_with(".alias")) {
      at = line_end;
    } else if (line.find(".entry") != std::string::npos ||
               line.find(".func") != std::string::npos) {
      const auto open = text.find_first_of("{;", at);
      if (text[open] == ';') {
        at = open + 1;
        continue;
      }
      const auto close = closing_brace(text, open);
      Function function =
          parse_function(text.substr(at, open - at), text.substr(open + 1, close - open - 1));
      module.functions[function.name] = std::move(function);
      at = close + 1;
    } else {
      const auto end = text.find(';', at);
      if (end == std::string::npos) throw std::runtime_error("PTX: cannot read " + line);
      for (Declaration& declared : parse_declarations(text.substr(at, end - at)))
        module.variables.push_back(std::move(declared));
      at = end + 1;
    }
  }
}

}  // namespace ringlet::emulated
