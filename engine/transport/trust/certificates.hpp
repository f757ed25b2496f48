#pragma once

#include <string>

namespace troupe {

struct certificate_options {
  int days = 365;
  bool keep_authority_key = false;
  /// A folder made with `keep_authority_key`, whose authority signs the new
  /// member; if empty, a new authority is made.
  std::string authority{};
};

/// Makes the credentials of a job's processes in `folder` (mode 700, made if
/// missing): `authority.pem`, and a member's certificate `member.pem` with its
/// key `member.key`. Keys have mode 600. The authority's own key is discarded,
/// unless it is to be kept as `authority.key`. Throws `io` if one of the files
/// exists already or can't be written, or if others have access to the folder;
/// then leaves nothing behind.
void make_certificates(const std::string& folder,
                       const certificate_options& options = {});

}  // namespace troupe
