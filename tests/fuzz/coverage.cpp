// g++ has no coverage in libFuzzer's format. It calls a function in each block,
// though, and libFuzzer accepts counters from anywhere.
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t count = std::size_t{1} << 16;
__attribute__((section("__libfuzzer_extra_counters")))
std::uint8_t counters[count];

}  // namespace

extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address"))) void
__sanitizer_cov_trace_pc() {
  const auto at = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[(at ^ (at >> 16) * 31) % count];
}

// Comparisons of floating-point numbers, which libFuzzer does not use.
extern "C" __attribute__((no_sanitize_coverage)) void
__sanitizer_cov_trace_cmpf(float, float) {}
extern "C" __attribute__((no_sanitize_coverage)) void
__sanitizer_cov_trace_cmpd(double, double) {}
