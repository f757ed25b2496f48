#include "troupe/engine/device/thrown.hpp"

#include <ATen/ops/empty.h>
#include <catch2/catch_test_macros.hpp>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace troupe;

namespace {

struct own_type {};

template <class Thrown>
std::string text_of(const Thrown& what) {
  try {
    throw what;
  } catch (...) {
    return thrown_text();
  }
}

}  // namespace

TEST_CASE("whatever is thrown has a text") {
  CHECK(text_of(std::runtime_error("why")) == "why");
  CHECK(text_of(std::string("a string")) == "a string");
  CHECK(text_of<const char*>("a literal") == "a literal");
  CHECK(text_of(std::bad_alloc()).find("bad_alloc") != std::string::npos);
  CHECK(text_of(3).find("of type int was thrown") != std::string::npos);
  CHECK(text_of(own_type{}).find("own_type") != std::string::npos);
}

TEST_CASE("used up threads and memory have texts of their own") {
  CHECK(text_of(std::system_error(std::make_error_code(
                  std::errc::resource_unavailable_try_again)))
          .starts_with("no thread could be started ("));
  try {
    at::empty({std::int64_t{1} << 50});
    FAIL("4 PiB were allocated");
  } catch (...) {
    const auto text = thrown_text();
    INFO(text);
    CHECK(text.starts_with("no memory could be allocated ("));
    CHECK(text.find("alloc_cpu") == std::string::npos);
  }
}
