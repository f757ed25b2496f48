#include "troupe/engine/device/libtorch_settings.hpp"

#include <ATen/Context.h>
#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <string>

TEST_CASE("operators are made deterministic, and the user's settings stay") {
  auto& context = at::globalContext();
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  troupe::use_deterministic_operators();
  CHECK(context.deterministicAlgorithms());
  CHECK_FALSE(context.deterministicAlgorithmsWarnOnly());
  CHECK_FALSE(context.deterministicFillUninitializedMemory());
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":4096:8");
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  troupe::use_deterministic_operators();
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":16:8");
  context.setDeterministicAlgorithms(false, false);
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
}
