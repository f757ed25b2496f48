#include "python_test.hpp"

TEST_CASE("gpu_check computes its tables and makes its bundle") {
  troupe::testing::check_python_test("gpu_check_test.py");
}
