#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace troupe::testing {

/// A folder of the test, removed with its content.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name =
      (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  std::string operator/(std::string_view name) const {
    return (path_ / name).string();
  }

  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    auto path = *this / name;
    std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::testing
