#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace troupe::cli {

/// What figures of bytes are printed in: MiB, or bytes where the largest is
/// below one.
class byte_unit {
 public:
  explicit byte_unit(double largest) : mebibytes_{largest >= mebibyte} {}

  std::string_view name() const { return mebibytes_ ? "MiB" : "bytes"; }
  std::string figure(double bytes) const {
    return mebibytes_ ? fmt::format("{:.1f}", bytes / mebibyte)
                      : fmt::format("{:.6g}", bytes);
  }
  std::string text(double bytes) const {
    return fmt::format("{} {}", figure(bytes), name());
  }

 private:
  static constexpr double mebibyte = 1 << 20;

  bool mebibytes_;
};

}  // namespace troupe::cli
