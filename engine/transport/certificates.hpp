#pragma once

#include <string>

namespace troupe {

struct certificate_options {
  int days = 365;
  bool keep_authority_key = false;
  /// A folder made with `keep_authority_key`, whose authority the new member
  /// belongs to; empty: one of its own.
  std::string authority{};
};

/// Makes in `folder` (mode 700, made if missing) what the processes of a job
/// show each other: `authority.pem`, and a member's certificate `member.pem`
/// with its key `member.key`. Keys have mode 600. The authority's own key is
/// forgotten, unless it is to be kept as `authority.key`. Throws `io` where one
/// of the files is there already or can't be written, or the folder is open to
/// others; then nothing is left behind.
void make_certificates(const std::string& folder,
                       const certificate_options& options = {});

}  // namespace troupe
