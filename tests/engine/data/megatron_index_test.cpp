// Corpora in Megatron-LM's format: tokens in a .bin, sequences in an .idx.
#include "troupe/engine/data/token_headers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <vector>

#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/data/token_file.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

template <class Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

struct index_text {
  std::uint64_t version = 1;
  std::uint8_t type = 8;  // uint16
  std::vector<std::int32_t> lengths{3, 0, 2};
  std::vector<std::int64_t> offsets{0, 6, 6};
  std::uint64_t documents = 2;

  std::string bytes() const {
    std::string text("MMIDIDX\0\0", 9);
    append(text, version);
    append(text, type);
    append(text, std::uint64_t{lengths.size()});
    append(text, documents);
    for (const auto length : lengths)
      append(text, length);
    for (const auto offset : offsets)
      append(text, offset);
    for (std::int64_t document = 0; document < 2; ++document)
      append(text, document);
    return text;
  }
};

megatron_index parse(const std::string& bytes) {
  return parse_megatron_index("x.idx", std::as_bytes(std::span(bytes)));
}

}  // namespace

TEST_CASE("a Megatron corpus is read by either of its paths") {
  const temporary_folder folder;
  std::string tokens;
  for (const std::uint16_t token : {7, 65535, 9, 10, 11})
    append(tokens, token);
  const auto bin = folder.write("corpus.bin", tokens);
  const auto idx = folder.write("corpus.idx", index_text{}.bytes());
  for (const auto& path : {bin, idx}) {
    CHECK(guess_token_format(path) == token_format::megatron);
    const auto opened = open_tokens(path);
    REQUIRE(opened->size() == 5);
    std::vector<std::int64_t> read(4);
    opened->read(1, 4, read.data());
    CHECK(read == std::vector<std::int64_t>{65535, 9, 10, 11});
  }
  folder.write("corpus.bin", tokens.substr(2));
  CHECK_THROWS_MATCHES(open_tokens(bin), error,
                       says("announces 5 tokens of 2 bytes"));
}

TEST_CASE("the content of a Megatron corpus is that of both files") {
  const temporary_folder folder;
  const auto bin = folder.write("corpus.bin", "0123456789");
  const auto idx = folder.write("corpus.idx", index_text{}.bytes());
  const auto before = content_of_tokens(bin);
  CHECK(content_of_tokens(idx) == before);
  CHECK(content_of_tokens(idx, token_format::megatron) == before);
  // Each invalid size.
  folder.write("corpus.idx", index_text{.lengths = {2, 1, 2}}.bytes());
  const auto other_index = content_of_tokens(bin);
  CHECK(other_index != before);
  folder.write("corpus.bin", "0123456780");
  CHECK(content_of_tokens(bin) != other_index);
  CHECK(content_of_tokens(idx) != other_index);
  const auto text = folder.write("text", "abc");
  CHECK(content_of_tokens(text) == content_text(text));
}

TEST_CASE("a .bin without an index is nanoGPT's") {
  const temporary_folder folder;
  CHECK(guess_token_format(folder.write("x.bin", "abcd"))
        == token_format::nano_gpt);
}

TEST_CASE("indexes that can't be meant are refused by what is wrong") {
  const auto refused = [](const index_text& text, const std::string& why) {
    CHECK_THROWS_MATCHES(parse(text.bytes()), error, says(why));
  };
  refused({.version = 2}, "x.idx: is an index of version 2");
  refused({.type = 6}, "type 6");
  refused({.lengths = {3, -1, 2}}, "sequence 1 has -1 tokens");
  refused({.offsets = {0, 6, 8}}, "sequence 2 begins at byte 8, not at 6");
  refused({.documents = std::uint64_t{1} << 62}, "announces 3 sequences");
  refused({.lengths = std::vector<std::int32_t>(99)}, "announces 99 sequences");
  CHECK_THROWS_MATCHES(parse("MMIDIDX"), error, says("is not an index"));
  const auto whole = index_text{}.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(parse(whole.substr(0, size)), error);
}
