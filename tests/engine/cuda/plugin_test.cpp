#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "../../files.hpp"
#include "troupe/engine/device/load_accelerator.hpp"
#include "troupe_paths.hpp"

using namespace troupe;

namespace {

/// The library of this build; the test is skipped without CUDA.
std::filesystem::path built_library() {
  if (std::string_view{TROUPE_CUDA_CODE}.empty())
    SKIP("this build goes without CUDA");
  const auto file = accelerator_file();
  REQUIRE_FALSE(file.empty());
  return file;
}

template <class Number>
Number number_at(const std::string& bytes, std::size_t position) {
  Number result{};
  if (position + sizeof result <= bytes.size())
    std::memcpy(&result, bytes.data() + position, sizeof result);
  return result;
}

/// The GPUs (80 for sm_80) for which the containers of device code in a file
/// hold machine code.
std::set<std::uint32_t> machine_code_in(const std::filesystem::path& file) {
  const auto bytes = testing::content(file);
  const std::string magic{"\x50\xed\x55\xba\x01\x00\x10\x00", 8};
  std::set<std::uint32_t> architectures;
  for (auto at = bytes.find(magic); at != std::string::npos;
       at = bytes.find(magic, at + 1)) {
    const auto end = at + 16 + number_at<std::uint64_t>(bytes, at + 8);
    for (auto entry = at + 16; entry + 32 <= end;) {
      if (number_at<std::uint16_t>(bytes, entry) == 2)
        architectures.insert(number_at<std::uint32_t>(bytes, entry + 28));
      entry += number_at<std::uint32_t>(bytes, entry + 4)
               + number_at<std::uint64_t>(bytes, entry + 8);
    }
  }
  return architectures;
}

std::set<std::uint32_t> expected_machine_code() {
  std::istringstream words{TROUPE_CUDA_CODE};
  std::set<std::uint32_t> result;
  for (std::string word; std::getline(words, word, ';');)
    result.insert(static_cast<std::uint32_t>(std::stoi(word)));
  return result;
}

}  // namespace

TEST_CASE("the library holds machine code for all GPUs it is built for") {
  const auto actual = machine_code_in(built_library());
  const auto expected = expected_machine_code();
  CHECK(expected.contains(80));
  CHECK(actual == expected);
}

TEST_CASE("the library loads, or a sentence names what it lacks") {
  const auto file = built_library();
  const auto loaded = load_accelerators(file);
  CHECK((loaded.library == nullptr) == !loaded.why_not.empty());
  if (!loaded)
    CHECK((loaded.why_not.find("no NVIDIA driver") == 0
           || loaded.why_not.find("no CUDA device") == 0
           || loaded.why_not.find("driver") != std::string::npos
           || loaded.why_not.find("cannot open shared object file")
                != std::string::npos));
}

TEST_CASE("the library exports its factory") {
  const auto command =
    fmt::format("nm -D --defined-only '{}'", built_library().string());
  auto* output = popen(command.c_str(), "r");
  REQUIRE(output);
  std::string symbols;
  for (int character; (character = std::fgetc(output)) != EOF;)
    symbols += static_cast<char>(character);
  CHECK(pclose(output) == 0);
  CHECK(symbols.find(fmt::format(" T {}\n", accelerator_symbol))
        != std::string::npos);
}
