#include "troupe/engine/device/thrown.hpp"

#include <catch2/catch_test_macros.hpp>

#include <new>
#include <stdexcept>
#include <string>

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
