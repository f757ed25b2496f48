#include "troupe/engine/data/token_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::testing::temporary_folder;

namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string llm_c_file(std::int32_t magic, std::int32_t version,
                       std::int32_t count,
                       const std::vector<std::uint16_t>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return raw(header) + raw(tokens);
}

std::string npy_file(const std::string& descr, const std::string& shape,
                     const std::string& data) {
  auto header = "{'descr': '" + descr
                + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) + raw(std::vector{length}) + header
         + data;
}

std::vector<std::int64_t> all_of(const token_source& tokens) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, tokens.size(), ids.data());
  return ids;
}

using ids = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("any file is a sequence of bytes") {
  const temporary_folder folder;
  const auto path = folder.write("a.txt", "abc\xff");
  CHECK(all_of(*open_tokens(path)) == ids{97, 98, 99, 255});
}

TEST_CASE("token formats are recognised by the file's content") {
  const temporary_folder folder;
  const std::vector<std::uint16_t> tokens = {1, 50256, 3};
  const auto nano = folder.write("nano.bin", raw(tokens));
  const auto llm_c =
    folder.write("llmc.bin", llm_c_file(20240520, 1, 3, tokens));
  const auto npy = folder.write("t.npy", npy_file("<u2", "(3,)", raw(tokens)));
  for (const auto& path : {nano, llm_c, npy}) {
    INFO(path);
    CHECK(all_of(*open_tokens(path)) == ids{1, 50256, 3});
  }
  const auto wide = folder.write(
    "w.npy", npy_file("<i8", "(2,)", raw(std::vector<std::int64_t>{7, 9})));
  CHECK(all_of(*open_tokens(wide)) == ids{7, 9});
  const auto mask =
    folder.write("m.npy", npy_file("|b1", "(3,)", std::string("\1\0\1", 3)));
  CHECK(all_of(*open_tokens(mask)) == ids{1, 0, 1});
}

TEST_CASE("tokens of Llama 3, of other machines and of rows are read") {
  const temporary_folder folder;
  const auto llama =
    folder.write("llama.bin", llm_c_file(20240801, 7, 2, {})
                                + raw(std::vector<std::uint32_t>{128'001, 5}));
  CHECK(all_of(*open_tokens(llama)) == ids{128'001, 5});
  const auto big = folder.write(
    "big.npy", npy_file(">u2", "(2,)", std::string("\1\0\0\2", 4)));
  CHECK(all_of(*open_tokens(big)) == ids{256, 2});
  const auto wide = folder.write(
    "wide.npy", npy_file(">i8", "(1,)", std::string("\0\0\0\0\0\1\0\3", 8)));
  CHECK(all_of(*open_tokens(wide)) == ids{65'539});
  const auto rows = folder.write(
    "rows.npy",
    npy_file("<u2", "(2, 2)", raw(std::vector<std::uint16_t>{1, 2, 3, 4})));
  CHECK(all_of(*open_tokens(rows)) == ids{1, 2, 3, 4});
}

TEST_CASE("a file that is no text is refused with what to do") {
  const temporary_folder folder;
  const auto check = [&](const std::string& name, const std::string& bytes,
                         const std::string& kind) {
    const auto path = folder.write(name, bytes);
    CHECK_THROWS_MATCHES(
      open_tokens(path), error,
      MessageMatches(ContainsSubstring(path + ": " + kind)
                     && ContainsSubstring("scripts/tokenize --tokenizer")
                     && ContainsSubstring("--text-format bytes")));
    CHECK(open_tokens(path, token_format::bytes)->size()
          == static_cast<std::int64_t>(bytes.size()));
  };
  check("a.txt.gz", "\x1f\x8b\x08", "is compressed (gzip)");
  check("a", "\x28\xb5\x2f\xfd.", "is compressed (Zstandard)");
  check("a.parquet", "PAR1..", "is a table");
  check("a.npz", "PK\x03\x04..", "is an archive");
  check("a.jsonl", "{\"text\": \"a\"}\n", "holds lines of JSON");
  check("a.txt", std::string("a\0b", 3), "has bytes of 0");
  CHECK(all_of(*open_mask(folder.write("mask", std::string("\0\1", 2))))
        == ids{0, 1});
}

TEST_CASE("files are read in a row, also across their ends") {
  const temporary_folder folder;
  const auto joined = join_tokens({open_tokens(folder.write("a", "ab")),
                                   open_tokens(folder.write("b", "c")),
                                   open_tokens(folder.write("c", "def"))});
  CHECK(joined->size() == 6);
  ids four(4);
  joined->read(1, 4, four.data());
  CHECK(four == ids{98, 99, 100, 101});
  CHECK(all_of(*part_of(joined, 4, 2)) == ids{101, 102});
}

TEST_CASE("bad token files are refused with a reason") {
  const temporary_folder folder;
  const auto refused = [&](const std::string& name, const std::string& bytes,
                           const std::string& reason) {
    INFO(reason);
    const auto path = folder.write(name, bytes);
    CHECK_THROWS_MATCHES(
      open_tokens(path), error,
      MessageMatches(ContainsSubstring(path) && ContainsSubstring(reason)));
  };
  refused("empty", "", "is empty");
  refused("odd.bin", "abc", "an odd number");
  refused("v.bin", llm_c_file(20240520, 2, 0, {}),
          "is an llm.c token file of version 2; troupe reads version 1");
  refused("l.bin", llm_c_file(20240801, 1, 0, {}),
          "is an llm.c token file of version 1; troupe reads version 7");
  refused("l.bin", llm_c_file(20240801, 7, 3, {1, 2}),
          "announces 3 tokens (1036 bytes), the file has 1028");
  refused("l.bin", llm_c_file(20240520, 1, 5, {1, 2}),
          "announces 5 tokens (1034 bytes), the file has 1028");
  refused("f.npy", npy_file("<f4", "(1,)", "abcd"), "items of type '<f4'");
  for (const std::string shape : {"()", "(-3,)", "(2, -2)", "(1 2)", "(x,)"})
    refused("d.npy", npy_file("<u2", shape, "abcd"),
            "without a shape of one dimension or more");
  refused("d.npy", npy_file("<u2", "(1000000000, 1000000000)", "abcd"),
          "more than 10^15 items");
  auto columns = npy_file("<u2", "(1, 2)", "abcd");
  columns.replace(columns.find("False,"), 6, "True, ");
  refused("d.npy", columns, "Fortran's order");
  refused("e.npy", npy_file("=u2", "(1,)", "ab"), "items of type '=u2'");
  refused("s.npy", npy_file("<u2", "(3,)", "abcd"), "announces 6 bytes");
  refused("c.npy", npy_file("<u2", "(3,)", "").substr(0, 20), "cut off");
  for (const std::size_t at : {6U, 7U}) {
    auto version = npy_file("<u2", "(1,)", "ab");
    version[at] = 9;
    refused("9.npy", version, at == 6 ? "version 9.0" : "version 1.9");
  }
  // Longer than the stack allows for a recursion per byte.
  constexpr std::uint32_t length = 1 << 20;
  for (const std::string begin : {"{'descr': '", "{'shape': (", "{'descr':"})
    for (const char filler : {'x', ' ', '1'})
      refused("r.npy",
              "\x93NUMPY" + std::string("\x02\x00", 2)
                + raw(std::vector<std::uint32_t>{length}) + begin
                + std::string(length - begin.size(), filler),
              "without a plain item type");
  CHECK_THROWS_MATCHES(open_tokens(folder / "missing"), error,
                       MessageMatches(ContainsSubstring("No such file")));
}

TEST_CASE("a file that vanishes or shrinks is an error, not a crash") {
  const temporary_folder folder;
  const auto path = folder.write("a.txt", std::string(100'000, 'a'));
  const auto tokens = open_tokens(path);
  std::int64_t id = 0;
  tokens->read(99'999, 1, &id);
  CHECK(id == 'a');
  std::filesystem::resize_file(path, 10);
  CHECK_THROWS_MATCHES(
    tokens->read(99'999, 1, &id), error,
    MessageMatches(ContainsSubstring("shortened from 100000 to 10 bytes")));
  std::filesystem::remove(path);
  CHECK_THROWS_MATCHES(tokens->read(0, 1, &id), error,
                       MessageMatches(ContainsSubstring("was deleted")));
}
