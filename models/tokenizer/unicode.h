// Code points of UTF-8 text and the character classes of BERT's tokenizer.
#pragma once

#include <string>
#include <string_view>

namespace ringlet::models::unicode {

/// Replaces bytes that are not UTF-8.
inline constexpr char32_t kReplacement = 0xFFFD;

/// Reads the code point at `position` (which must be inside `text`) and advances past it. Bytes
/// that are not UTF-8 (overlong, surrogate, truncated) read as kReplacement, one at a time.
char32_t next(std::string_view text, std::size_t& position);
/// Reads the code point that ends at `position` > 0 and moves back to its beginning.
char32_t previous(std::string_view text, std::size_t& position);
void append(char32_t c, std::string& out);
/// A copy with U+FFFD for each stray byte.
std::string valid(std::string_view text);
/// Well-formed UTF-8.
bool is_valid(std::string_view text);
/// Where the extended grapheme cluster that begins at `position` ends.
std::size_t cluster_end(std::string_view text, std::size_t position);
/// The number of code points; each stray byte counts as one.
std::size_t length(std::string_view text);

/// The White_Space property: U+0009-000D, U+0020, U+0085, U+00A0, U+2000-200A, U+3000, ...
bool is_whitespace(char32_t c);
/// Where the white space that begins at `position` ends, and where the one that ends there begins.
std::size_t skip_whitespace(std::string_view text, std::size_t position);
std::size_t skip_whitespace_before(std::string_view text, std::size_t position);
/// ASCII that is neither letter, digit, space nor control; elsewhere the categories P*.
bool is_punctuation(char32_t c);
/// Control, format and private use (Cc, Cf, Co) without tab, line feed and carriage return.
bool is_control(char32_t c);
/// The CJK ideographs that BERT separates, including compatibility forms.
bool is_cjk(char32_t c);
/// Category L*.
bool is_letter(char32_t c);
/// Category N*.
bool is_number(char32_t c);
/// Letter, mark, decimal digit, connector or joiner: \w of a regular expression by Unicode's
/// Technical Standard 18.
bool is_word(char32_t c);

/// This one has a decomposition since Unicode 13; published vocabularies use those of Unicode 12.
inline constexpr char32_t kNotDecomposed = 0x11938;
/// The canonical decomposition (NFD) of `text`, which is valid and without kNotDecomposed, without
/// category Mn, most of the combining accents.
std::string without_accents(std::string_view text);
/// Valid text in lower case, one code point at a time; U+0130 gives two.
std::string lower(std::string_view text);

}  // namespace ringlet::models::unicode
