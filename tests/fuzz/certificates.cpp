// The files of `troupe certificates`, one of three mutated.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "../temporary_folder.hpp"
#include "parse.hpp"
#include "troupe/engine/transport/trust/certificates.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

using namespace troupe;

namespace {

constexpr std::array files{"authority.pem", "member.pem", "member.key"};

/// A matching set, and for each file a folder with the other two.
class certificate_folders {
 public:
  certificate_folders() {
    make_certificates(folder_ / "set");
    for (const std::string other : files) {
      std::filesystem::create_directory(folder_ / other);
      for (const std::string name : files)
        if (name != other)
          std::filesystem::create_symlink((folder_ / "set/") + name,
                                          (folder_ / other) + "/" + name);
    }
  }
  std::string without(const char* file) const { return folder_ / file; }

 private:
  testing::temporary_folder folder_;
};

void write(const std::string& path, std::string_view bytes) {
  const auto file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  [[maybe_unused]] const auto done = ::write(file, bytes.data(), bytes.size());
  ::close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    static const certificate_folders folders;
    const auto* name = files[testing::take_choice(bytes) % files.size()];
    const auto folder = folders.without(name);
    write(folder + "/" + name, bytes);
    tls_context::of_certificates(folder);
  });
}
