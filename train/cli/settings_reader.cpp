#include "ringlet/train/cli/settings_reader.h"

#include <string_view>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"

namespace ringlet::cli {
namespace {

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

class SettingsReader {
 public:
  explicit SettingsReader(const std::string& file) : file_(file), text_(read_file(file)) {}

  std::vector<Setting> read() {
    std::vector<Setting> settings;
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      settings.push_back(next());
      skip_blanks();
      if (at_ < text_.size() && text_[at_] != '\n') fail("expected the end of the line");
    }
    return settings;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_input(file_, ":", line_, ": ", parts...);
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// Up to the first character that is none of `characters`, or is one of them.
  std::string take_while(std::string_view characters, bool among) {
    const std::size_t begin = at_;
    at_ = among ? text_.find_first_not_of(characters, at_) : text_.find_first_of(characters, at_);
    if (at_ == std::string::npos) at_ = text_.size();
    return text_.substr(begin, at_ - begin);
  }

  /// Skips blanks and a comment.
  void skip_blanks() {
    take_while(" \t\r", true);
    if (at_ < text_.size() && text_[at_] == '#') take_while("\n", false);
  }

  void skip_lines() {
    for (skip_blanks(); take('\n'); skip_blanks()) ++line_;
  }

  Setting next() {
    Setting setting{take_while(kLetters, true), {}, line_};
    if (setting.name.empty()) fail("expected NAME = VALUE");
    skip_blanks();
    if (!take('=')) fail("expected '=' behind ", quote(setting.name));
    skip_blanks();
    if (!take('[')) {
      setting.values.push_back(value());
      return setting;
    }
    do {
      skip_lines();
      if (!setting.values.empty() && take(']')) return setting;  // behind a last comma
      setting.values.push_back(value());
      skip_lines();
    } while (take(','));
    if (!take(']')) fail("expected ',' or ']'");
    return setting;
  }

  std::string value() {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
    std::string bare = take_while(" \t\r\n,]#", false);
    if (bare.empty()) fail("expected a value");
    if (bare != "true" && bare != "false" && !parse_number<double>(bare))
      fail("expected a string in quotes, a number, true or false, found ", quote(bare));
    return bare;
  }

  /// "with \\ and \"", or 'as it is'.
  std::string quoted() {
    const char mark = text_[at_++];
    std::string content;
    while (at_ < text_.size() && text_[at_] != mark && text_[at_] != '\n') {
      if (mark == '"' && take('\\') && (at_ == text_.size() || !is_escaped(text_[at_])))
        fail("expected \\\\ or \\\" for a backslash or a quote in a string");
      content += text_[at_++];
    }
    if (!take(mark)) fail("the string has no end in its line");
    return content;
  }

  static bool is_escaped(char c) { return c == '\\' || c == '"'; }

  const std::string file_;
  const std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Setting> read_settings(const std::string& file) { return SettingsReader(file).read(); }

}  // namespace ringlet::cli
