#include "troupe/engine/device/load_accelerator.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "troupe/base/error.hpp"
#include "troupe_device_headers.hpp"

namespace troupe {
namespace {

constexpr const char* file_name = "libtroupe_cuda.so";

std::string last_problem() {
  const auto* text = dlerror();
  return text ? text : "unknown";
}

accelerator_lookup found_in(void* library, const std::string& name) {
  auto* symbol = dlsym(library, accelerator_symbol);
  if (!symbol)
    return {nullptr, fmt::format("{}: can't load the accelerator library: {}",
                                 name, last_problem())};
  accelerator_lookup result;
  reinterpret_cast<accelerator_factory*>(symbol)(accelerator_interface, result);
  if (!result && result.why_not.empty())
    result.why_not = fmt::format(
      "{} is from another build of troupe than this program; build or install "
      "both at once",
      name);
  return result;
}

accelerator_lookup look_up() {
  if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
    return {nullptr, "no NVIDIA driver: " + last_problem()};
  const auto file = accelerator_file();
  if (file.empty())
    return {nullptr,
            fmt::format(
              "{} is neither beside the program nor in ../lib/troupe, and "
              "TROUPE_CUDA_PLUGIN is not set: troupe was built without CUDA",
              file_name)};
  return load_accelerators(file);
}

}  // namespace

const accelerator_lookup& load_accelerators() {
  static const auto found = look_up();
  return found;
}

accelerator_lookup load_accelerators(const std::filesystem::path& file) {
  auto* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {nullptr,
            fmt::format("{}: {}", file.filename().string(), last_problem())};
  try {
    return found_in(library, file.filename().string());
  } catch (const std::exception& problem) {
    return {nullptr,
            fmt::format("{}: {}", file.filename().string(), problem.what())};
  }
}

std::filesystem::path accelerator_file() {
  if (const auto* named = std::getenv("TROUPE_CUDA_PLUGIN"))
    return named;
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto folder = program.parent_path();
  const std::array places{folder, folder / "../lib", folder / "../lib/troupe",
                          folder / "../../lib"};
  for (const auto& place : places)
    if (std::filesystem::exists(place / file_name, none))
      return (place / file_name).lexically_normal();
  return {};
}

}  // namespace troupe
