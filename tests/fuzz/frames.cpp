// Frames between processes, assembled by a connection from the pieces that a
// stream returns.
#include "parse.hpp"
#include "troupe/engine/transport/frame_queues.hpp"

using namespace troupe;

namespace {

/// Returns so many bytes at a time as its first byte says.
class stream_of_bytes final : public byte_stream {
 public:
  explicit stream_of_bytes(std::string_view bytes)
    : piece_(1 + testing::take_choice(bytes)), left_(bytes) {}

  stream_progress read(void* into, std::size_t size) override {
    const auto count = std::min({size, piece_, left_.size()});
    if (count == 0)
      return {stream_progress::state::ended};
    std::memcpy(into, left_.data(), count);
    left_.remove_prefix(count);
    return {stream_progress::state::moved, count};
  }
  stream_progress write(std::span<const iovec>) override { return {}; }
  stream_progress finish_writing() override { return {}; }
  void close() override {}
  wait_handle handle_to(stream_progress::state) const override { return {}; }

 private:
  std::size_t piece_;
  std::string_view left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    static constexpr frame_limits limits{1U << 20, 1U << 20};
    connection_events events;
    events.limits = limits;
    events.arrived = [](const frame& whole) {
      const auto again = frame_start(whole);
      const auto header =
        read_frame_header({again.data(), frame_header::bytes}, limits);
      const auto head = read_frame_head(
        header, std::string_view(again).substr(frame_header::bytes));
      testing::require(head.head == whole.head
                       && head.tensors.size() == whole.tensors.size());
    };
    stream_of_bytes stream(bytes);
    std::atomic<std::int64_t> count = 0;
    incoming_frames(events).read_from(stream, count);
  });
}
