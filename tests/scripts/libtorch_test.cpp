#include "python_test.hpp"

TEST_CASE("troupe-libtorch gets LibTorch for packages") {
  troupe::testing::check_python_test("libtorch_test.py");
}
