#include "support.hpp"

#include <troupe_paths.hpp>

namespace troupe::testing {

std::string case_path(const std::string& name) {
  return std::string{TROUPE_SOURCE_DIR} + "/tests/schedules/cases/" + name;
}

const std::vector<std::string>& case_names() {
  static const std::vector<std::string> names{
    "1f1b_p4_v1_m8",          "dualpipev_p2_v2_m4",
    "gpipe_p2_v1_m4",         "interleaved1f1b_p2_v2_m4",
    "interleavedzb_p2_v2_m4", "zbv_p2_v2_m2"};
  return names;
}

}  // namespace troupe::testing
