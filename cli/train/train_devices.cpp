#include "troupe/cli/train/train_setup.hpp"

#include <spdlog/spdlog.h>

#include <map>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/train/shared_devices.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/device/load_accelerator.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::cli {

namespace {

[[noreturn]] void refuse(const std::string& device) {
  fail(error_code::invalid_argument,
       "--device {}: write cpu, cuda (all devices), or some by number: "
       "cuda:0,2",
       printable(device));
}

/// The numbers of "cuda:0,2" are 0 and 2; "cuda" has none.
std::vector<int> numbers_in(const std::string& device) {
  const std::string prefix = "cuda";
  if (!device.starts_with(prefix))
    refuse(device);
  auto rest = device.substr(prefix.size());
  if (rest.empty())
    return {};
  if (rest[0] != ':' || rest.size() == 1 || rest.back() == ',')
    refuse(device);
  std::vector<int> numbers;
  for (const auto part : split_words(std::string_view(rest).substr(1), ',')) {
    const auto number = parse_number<int>(part);
    if (!number || *number < 0)
      refuse(device);
    numbers.push_back(*number);
  }
  return numbers;
}

/// The numbers of `--device cuda`.
std::vector<int> own_devices(accelerator_library& library) {
  const auto place = read_environment();
  auto choice =
    choose_devices(place, library.devices(), library.collectives_version());
  if (!choice.shared.empty() && place.process == 0)
    spdlog::info(choice.shared);
  return std::move(choice.numbers);
}

}  // namespace

std::vector<std::shared_ptr<accelerator>> open_devices(
  const device_options& options, bool plain) {
  if (options.device == "cpu" && options.cuda_graphs)
    throw error(error_code::invalid_argument,
                "--cuda-graphs launches steps on a GPU; give --device cuda:0, "
                "or omit --cuda-graphs");
  if (options.device == "cpu")
    return {};
  auto numbers = numbers_in(options.device);
  if (plain && numbers.size() > 1)
    fail(error_code::invalid_argument,
         "--device {}: --plain runs on one device; name one", options.device);
  if (options.deterministic)
    use_deterministic_operators();
  allow_shared_devices(read_environment());
  const auto& found = load_accelerators();
  if (!found)
    fail(error_code::device, "--device {}: {}", options.device, found.why_not);
  const auto devices = found.library->devices();
  if (numbers.empty())
    numbers = plain ? std::vector{0} : own_devices(*found.library);
  std::vector<std::shared_ptr<accelerator>> opened;
  for (const auto number : numbers) {
    if (number >= devices)
      fail(error_code::device, "--device {}: there {} here", options.device,
           devices == 1 ? "is one device, number 0,"
                        : fmt::format("are {} devices", devices));
    opened.push_back(found.library->open(number));
    spdlog::info("device {}", describe(opened.back()->description()));
  }
  if (options.cuda_graphs && opened.size() > 1)
    fail(error_code::invalid_argument,
         "--cuda-graphs records the steps of one GPU, and --device {} is {}; "
         "name one (--device cuda:0), or omit --cuda-graphs",
         options.device, opened.size());
  return opened;
}

overlap_options overlap_of(const device_options& options) {
  if (options.overlap == "all")
    return {};
  overlap_options overlap{false, false, false, false, false};
  if (options.overlap == "none")
    return overlap;
  if (options.overlap.empty() || options.overlap.back() == ',')
    fail(error_code::invalid_argument,
         "--overlap '{}': write all, none, or some of "
         "data,reduce,transfers,pairs,copies",
         printable(options.overlap));
  static const std::map<std::string, bool overlap_options::*> kinds{
    {"data", &overlap_options::data},
    {"reduce", &overlap_options::reduce},
    {"transfers", &overlap_options::transfers},
    {"pairs", &overlap_options::pairs},
    {"copies", &overlap_options::copies}};
  for (const auto part : split_words(options.overlap, ',')) {
    const auto kind = kinds.find(std::string(part));
    if (kind == kinds.end())
      fail(error_code::invalid_argument,
           "--overlap: unknown kind of work '{}'; give all, none, or some of "
           "data,reduce,transfers,pairs,copies",
           printable(part));
    overlap.*kind->second = true;
  }
  return overlap;
}

}  // namespace troupe::cli
