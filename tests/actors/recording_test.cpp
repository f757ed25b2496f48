#include "troupe/actors/step/recording.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe;

TEST_CASE("after what failed first nothing more is recorded") {
  recording of;
  int done = 0;
  CHECK(of.attempt("0F0", [&] { ++done; }));
  CHECK(of.problem() == "");
  CHECK_FALSE(of.attempt("0F1", [] { throw std::runtime_error("no room"); }));
  CHECK(of.problem() == "0F1: no room");
  CHECK_FALSE(of.attempt("0B0", [&] { ++done; }));
  of.fail("too late");
  CHECK(of.problem() == "0F1: no room");
  CHECK(done == 1);
}
