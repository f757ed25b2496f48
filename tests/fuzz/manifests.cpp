// Manifests of checkpoints.
#include "troupe/engine/checkpoint/manifest.hpp"

#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read = parse_manifest(text, "manifest.json");
    const auto written = to_json(read);
    testing::require(to_json(parse_manifest(written, "written")) == written);
    for (const auto& file : read.files)
      testing::require(file.name.find('/') == std::string::npos);
  });
}
