// Shared memory whose other end writes arbitrary counts into it; each step has
// a command, a count and a size.
#include <array>
#include <new>

#include "parse.hpp"
#include "troupe/engine/transport/stream/byte_ring.hpp"
#include "troupe/engine/transport/wire.hpp"

using namespace troupe;

namespace {

constexpr std::size_t ring_bytes = 64;

void command(unsigned kind, std::uint64_t count, std::size_t size,
             ring_header& header, ring_writer& writer, ring_reader& reader) {
  const auto ring = [] {};
  std::array<char, 256> bytes{};
  const iovec part{bytes.data(), size};
  if (kind == 0)
    header.written.store(count);
  else if (kind == 1)
    header.taken.store(count);
  else if (kind == 2)
    testing::require(writer.write({&part, 1}, ring) <= ring_bytes);
  else if (kind == 3)
    testing::require(reader.read(bytes.data(), size, ring) <= size);
  else if (kind == 4)
    reader.begin_sleep();
  else
    writer.begin_sleep();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    alignas(128) std::array<char, ring_header::bytes + ring_bytes> memory{};
    auto* header = new (memory.data()) ring_header{};
    ring_writer writer(memory.data(), ring_bytes);
    ring_reader reader(memory.data(), ring_bytes);
    for (wire_reader from(bytes); from.left() > 0;) {
      const auto kind = from.get<std::uint8_t>() % 6U;
      const auto count = from.get<std::uint64_t>();
      command(kind, count, from.get<std::uint8_t>(), *header, writer, reader);
    }
  });
}
