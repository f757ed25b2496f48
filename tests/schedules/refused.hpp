#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "troupe/base/error.hpp"

namespace troupe::testing {

/// A text that must be refused, and the expected error.
struct refused_text {
  const char* csv;
  error_code code;
  const char* message;
};

template <class Read, class Rows>
void check_refused(const Rows& rows, Read read) {
  for (const auto& row : rows) {
    INFO(row.csv);
    try {
      read(row.csv);
      FAIL_CHECK("was accepted");
    } catch (const error& refusal) {
      CHECK(refusal.code() == row.code);
      CHECK(std::string{refusal.what()} == row.message);
    }
  }
}

}  // namespace troupe::testing
