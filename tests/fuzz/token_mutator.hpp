#pragma once

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::testing {

/// A text's tokens: runs of digits, runs of letters (with '_'), and every
/// other byte by itself. Joined again they are the text.
inline std::vector<std::string> tokens_of(std::string_view text) {
  const auto kind_of = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isdigit(byte) != 0               ? 1
           : std::isalpha(byte) != 0 || c == '_' ? 2
                                                 : 0;
  };
  std::vector<std::string> tokens;
  int last = 0;
  for (const auto c : text) {
    const auto kind = kind_of(c);
    if (kind == 0 || kind != last)
      tokens.emplace_back();
    tokens.back() += c;
    last = kind;
  }
  return tokens;
}

/// Changes a text by the tokens of its own grammar: drops, doubles, moves and
/// swaps runs of them, takes some of another text, and changes numbers by one
/// or two. The same changes for the same seed.
class token_mutator {
 public:
  explicit token_mutator(unsigned seed) : random_(seed) {}

  std::string mutate(std::string_view one, std::string_view other) {
    auto tokens = tokens_of(one);
    const auto donor = tokens_of(other);
    for (auto times = 1 + below(4); times > 0 && !tokens.empty(); --times)
      change(tokens, donor);
    std::string text;
    for (const auto& token : tokens)
      text += token;
    return text;
  }

 private:
  using token_list = std::vector<std::string>;
  struct range {
    std::ptrdiff_t begin, end;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Mostly one word, such as "0RECV_B0,", sometimes a whole lane.
  range part_of(const token_list& tokens) {
    const auto begin = below(tokens.size());
    const auto longest = below(4) == 0 ? std::size_t{64} : std::size_t{4};
    const auto end = std::min(tokens.size(), begin + 1 + below(longest));
    return {static_cast<std::ptrdiff_t>(begin),
            static_cast<std::ptrdiff_t>(end)};
  }

  static token_list copy_of(const token_list& tokens, range part) {
    return {tokens.begin() + part.begin, tokens.begin() + part.end};
  }

  void insert(token_list& tokens, const token_list& added) {
    constexpr std::size_t most = 1 << 14;
    if (tokens.size() + added.size() > most)
      return;
    const auto at = static_cast<std::ptrdiff_t>(below(tokens.size() + 1));
    tokens.insert(tokens.begin() + at, added.begin(), added.end());
  }

  void change(token_list& tokens, const token_list& donor) {
    const auto part = part_of(tokens);
    const auto part_copy = copy_of(tokens, part);
    const auto kind = below(6);
    if (kind == 0 || kind == 1)  // drop, or move
      tokens.erase(tokens.begin() + part.begin, tokens.begin() + part.end);
    if (kind == 1 || kind == 2)  // move, or double
      insert(tokens, part_copy);
    if (kind == 3)
      std::swap(tokens[below(tokens.size())], tokens[below(tokens.size())]);
    if (kind == 4 && !donor.empty())
      insert(tokens, copy_of(donor, part_of(donor)));
    if (kind == 5)
      change_number(tokens);
  }

  void change_number(token_list& tokens) {
    const auto first = below(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      auto& token = tokens[(first + i) % tokens.size()];
      if (std::isdigit(static_cast<unsigned char>(token.front())) == 0
          || token.size() > 9)
        continue;
      const auto changed = std::stol(token) + static_cast<long>(below(5)) - 2;
      token = std::to_string(std::max(changed, 0L));
      return;
    }
  }

  std::mt19937 random_;
};

}  // namespace troupe::testing
