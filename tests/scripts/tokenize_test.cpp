#include "python_test.hpp"

TEST_CASE("texts are tokenized and decoded") {
  troupe::testing::check_python_test("tokenize_test.py", "tokenizers");
}
