#include "troupe/engine/models/fresh_folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <system_error>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_on(const std::string& path, const char* doing,
                          const std::error_code& trouble) {
  fail(error_code::io, "{}: can't be {}: {}", printable(path), doing,
       trouble.message());
}

std::string without_slash(const std::string& path) {
  const fs::path given(path);
  return (given.has_filename() ? given : given.parent_path()).string();
}

}  // namespace

void require_free(const std::string& path) {
  std::error_code trouble;
  const auto target = without_slash(path);
  if (fs::exists(target, trouble)
      && !(fs::is_directory(target, trouble) && fs::is_empty(target, trouble)))
    fail(error_code::io,
         "{}: exists already; move it away, or give another folder",
         printable(path));
  const fresh_folder probe(path);
}

fresh_folder::fresh_folder(const std::string& path)
  : path_(without_slash(path)) {
  std::random_device random;
  temporary_ = fmt::format("{}.troupe-{:08x}", path_, random());
  std::error_code trouble;
  if (const fs::path target(path_); target.has_parent_path())
    fs::create_directories(target.parent_path(), trouble);
  fs::create_directory(temporary_, trouble);
  if (trouble)
    fail_on(temporary_, "created", trouble);
}

fresh_folder::~fresh_folder() {
  std::error_code ignored;
  if (!temporary_.empty())
    fs::remove_all(temporary_, ignored);
}

std::string fresh_folder::file(const std::string& name) const {
  return (fs::path(temporary_) / name).string();
}

void fresh_folder::keep() {
  std::error_code trouble;
  fs::rename(temporary_, path_, trouble);
  if (trouble)
    fail_on(path_, "put in place", trouble);
  temporary_.clear();
}

}  // namespace troupe
