#include "troupe/engine/device/profiler.hpp"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <atomic>
#include <fstream>
#include <set>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

ProfilerConfig config() {
  torch::profiler::impl::ExperimentalConfig extra;
  extra.profile_all_threads = true;
  return ProfilerConfig(ProfilerState::KINETO,
                        true,  // shapes
                        false, false, false, false, extra);
}

std::atomic<bool> is_profiling = false;

/// Kineto does not tell of a disk that is full.
bool is_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  for (auto last = file.get(); file; last = file.get()) {
    if (last == '}')
      return true;
    if (last != '\n')
      break;
    file.seekg(-2, std::ios::cur);
  }
  return false;
}

}  // namespace

profiler::profiler(bool has_gpu) {
  std::set<ActivityType> activities{ActivityType::CPU};
  if (has_gpu)
    activities.insert(ActivityType::CUDA);
  kineto::prepareProfiler(config(), activities);
  kineto::enableProfiler(config(), activities);
  is_profiling = true;
}

profiler::~profiler() {
  if (is_profiling.exchange(false))
    kineto::disableProfiler();
}

void profiler::save(const std::string& path) {
  is_profiling = false;
  const auto recorded = kineto::disableProfiler();
  if (recorded)
    recorded->save(path);
  if (!is_whole(path))
    fail(error_code::io,
         "LibTorch's profiler could not write {} whole; is the disk full?",
         path);
}

struct profiled_range::range {
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
};

bool profiled_range::is_recording() {
  return is_profiling.load(std::memory_order_relaxed);
}

void profiled_range::begin(const std::string& text) {
  range_ = std::make_shared<range>();
  if (range_->record.isActive())
    range_->record.before(text);
}

}  // namespace troupe
