#include "troupe/engine/transport/frame.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

frame sample() {
  return {frame_type::tensors,
          "head",
          {at::arange(6, at::kFloat).view({2, 3}), at::Tensor{},
           at::zeros({0, 4}, at::kLong)}};
}

/// How a receiver reads the bytes before the tensors.
frame_head read(std::string_view bytes, const frame_limits& limits = {}) {
  const auto header =
    read_frame_header(bytes.substr(0, frame_header::bytes), limits);
  return read_frame_head(header, std::string_view(bytes).substr(
                                   frame_header::bytes, header.head_bytes));
}

[[gnu::noinline]] void check_frame_refused(const std::string& bytes,
                                           std::string_view because) {
  CHECK_THROWS_MATCHES(read(bytes), error,
                       MessageMatches(ContainsSubstring(std::string(because))));
}

[[gnu::noinline]] std::string with(std::string bytes, std::size_t at,
                                   char value) {
  bytes.at(at) = value;
  return bytes;
}

}  // namespace

TEST_CASE("a frame announces its tensors and carries its head") {
  const auto head = read(frame_start(sample()));
  CHECK(head.head == "head");
  REQUIRE(head.tensors.size() == 3);
  CHECK(head.tensors[0] == tensor_form{at::kFloat, {2, 3}});
  CHECK(head.tensors[1] == tensor_form{});
  CHECK(head.tensors[2] == tensor_form{at::kLong, {0, 4}});
  const auto tensors = allocate(head.tensors);
  CHECK(describe(tensors) == "(Float[2, 3], undefined, Long[0, 4])");
}

TEST_CASE("frames that are none are refused, each with its reason") {
  const auto good = frame_start(sample());
  check_frame_refused(with(good, 0, 'X'), "not a process of a troupe job");
  check_frame_refused(with(good, 4, 9),
                      "version 9 of the link protocol, this program "
                        + std::to_string(frame_version)
                        + "; run the same program");
  check_frame_refused(with(good, 6, 77), "of type 77");
  check_frame_refused(with(good, 12, 1), "nonzero reserved bytes");
  check_frame_refused(with(good, 16, 25), "other sizes than it announces");
  check_frame_refused(with(good, frame_header::bytes, 100),
                      "more items than bytes");
  check_frame_refused(with(good, frame_header::bytes + 4, 99),
                      "an unknown kind");
  // A size of -1, and one whose bytes overflow.
  check_frame_refused(with(good, frame_header::bytes + 13, '\xff'),
                      "impossible size");
  // Nothing, times 2^48, times 2^48.
  const auto empty =
    frame_start({frame_type::tensors, {}, {at::zeros({0, 1, 1})}});
  const auto vast = with(empty, frame_header::bytes + 20, 1);
  CHECK(read(vast).tensors[0].sizes[1] > std::int64_t{1} << 40);
  check_frame_refused(with(vast, frame_header::bytes + 28, 1),
                      "impossible size");
  CHECK_THROWS_MATCHES(
    read(good, {.tensor_bytes = 8}), error,
    MessageMatches(ContainsSubstring("at most 67108864 and 8 are accepted")));
  // More than the limit, and a heartbeat with tensors.
  check_frame_refused(with(good, 22, 1), "bytes; at most 67108864 and");
  check_frame_refused(with(good, 6, static_cast<char>(frame_type::heartbeat)),
                      "at most 67108864 and 0 are accepted");
  CHECK_THROWS_MATCHES(
    frame_start({frame_type::tensors, {}, {at::zeros({2, 3}).transpose(0, 1)}}),
    error, MessageMatches(ContainsSubstring("not contiguous")));
}

TEST_CASE("mutated frames are read or refused, never worse") {
  const auto good = frame_start(sample());
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    for (auto changes = random() % 4 + 1; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    try {
      const auto head = read(bytes, {1 << 16, 1 << 20});
      CHECK(head.tensors.size() < bytes.size());
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
    } catch (const std::out_of_range&) {
      CHECK(bytes.size()
            < frame_header::bytes);  // the test itself cuts it short
    }
  }
}
