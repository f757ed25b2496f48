#pragma once

#include <functional>
#include <optional>
#include <string>

#include "troupe/engine/membership/record_store.hpp"

namespace troupe {

/// A record in a file, as JSON, so that an authority that is started again goes
/// on from it. The file is replaced whole. Use it from one process at a time,
/// on one thread: that another one has stored its record is noticed, but two
/// that store at the same moment are not.
class record_in_file : public membership::record_store {
 public:
  /// `first` is read as long as there is no such file. `trouble` receives why
  /// the file can't be read or written now.
  record_in_file(std::string path, membership::job_record first,
                 std::function<void(const std::string&)> trouble);

  /// Throws `malformed_text` for a file that is no record.
  std::optional<membership::job_record> read() override;
  std::optional<std::int64_t> revision() override;
  membership::swap_result swap(const membership::job_record& next) override;

 private:
  std::string path_;
  membership::job_record first_;
  std::function<void(const std::string&)> trouble_;
};

}  // namespace troupe
