#include "troupe/monitors/sinks/tensorboard_sink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <boost/crc.hpp>
#include <cmath>
#include <concepts>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/monitors/append_file.hpp"

namespace troupe {

namespace {

/// Little endian on every machine.
template <std::unsigned_integral Number>
void put_fixed(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    out += static_cast<char>(number >> (8 * i) & 0xff);
}

void put_varint(std::string& out, std::uint64_t number) {
  for (; number > 127; number >>= 7)
    out += static_cast<char>((number & 127) | 128);
  out += static_cast<char>(number);
}

// Protobuf: a field's number and wire type, then what the type says.
void put_double(std::string& out, unsigned field, double value) {
  put_varint(out, field << 3 | 1);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_float(std::string& out, unsigned field, float value) {
  put_varint(out, field << 3 | 5);
  put_fixed(out, std::bit_cast<std::uint32_t>(value));
}

void put_integer(std::string& out, unsigned field, std::int64_t value) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

/// The masked CRC-32C (Castagnoli, RFC 3720 B.4).
std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return std::rotr(std::uint32_t{sum.checksum()}, 15) + 0xa282ead8u;
}

/// A metric's name; of another phase than training it tells the phase.
std::string tag_of(const std::string& name, phase phase) {
  const auto prefix = to_text(phase) + std::string("/");
  return phase == phase::training || name.starts_with(prefix) ? name
                                                              : prefix + name;
}

/// Buckets from below the first that is not empty to the last.
struct buckets {
  std::string limits, counts;

  void add(double limit, std::int64_t count) {
    put_fixed(limits, std::bit_cast<std::uint64_t>(limit));
    const auto number = static_cast<double>(count);
    put_fixed(counts, std::bit_cast<std::uint64_t>(number));
  }
};

buckets buckets_of(const tensor_statistics& statistics) {
  buckets result;
  const auto& bins = *statistics.histogram;
  const auto is_filled = [](std::int64_t count) { return count > 0; };
  const auto first = std::ranges::find_if(bins, is_filled);
  const auto end = std::find_if(bins.rbegin(), bins.rend(), is_filled).base();
  const auto lower_limit = [&](auto bin) {
    return std::ldexp(1.0, static_cast<int>(bin - bins.begin()) - 150);
  };
  if (statistics.zeros > 0)
    result.add(first == bins.end() ? 0 : lower_limit(first), statistics.zeros);
  for (auto bin = first; bin < end; ++bin)
    result.add(lower_limit(bin + 1), *bin);
  return result;
}

std::string histogram_of(const tensor_statistics& statistics) {
  const auto count = static_cast<double>(statistics.finite());
  const auto bars = buckets_of(statistics);
  std::string histogram;
  put_double(histogram, 1, statistics.min_abs);
  put_double(histogram, 2, statistics.max_abs);
  put_double(histogram, 3, count);
  put_double(histogram, 4, statistics.mean * count);
  put_double(histogram, 5,
             statistics.squares + count * statistics.mean * statistics.mean);
  put_bytes(histogram, 6, bars.limits);
  put_bytes(histogram, 7, bars.counts);
  return histogram;
}

}  // namespace

std::string framed(std::string_view bytes) {
  std::string record;
  put_fixed(record, std::uint64_t{bytes.size()});
  put_fixed(record, masked_crc(record));
  record += bytes;
  put_fixed(record, masked_crc(bytes));
  return record;
}

std::string version_event(double wall_time) {
  std::string event;
  put_double(event, 1, wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string session_event(double wall_time, std::int64_t first_step) {
  std::string session;
  constexpr int start = 1;  // of SessionLog.SessionStatus
  put_integer(session, 1, start);
  std::string event;
  put_double(event, 1, wall_time);
  put_integer(event, 2, first_step);
  put_bytes(event, 7, session);
  return event;
}

std::string summary_event(double wall_time, const metrics_record& record) {
  const auto phase = record.source.phase;
  std::string summary;
  for (const auto& each : record.values) {
    std::string value;
    put_bytes(value, 1, tag_of(each.name, phase));
    put_float(value, 2, static_cast<float>(each.value));
    put_bytes(summary, 1, value);
  }
  for (const auto& [name, statistics] : record.histograms) {
    if (!statistics.histogram || statistics.finite() == 0)
      continue;
    std::string value;
    put_bytes(value, 1, tag_of(name, phase));
    put_bytes(value, 5, histogram_of(statistics));
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_double(event, 1, wall_time);
  put_integer(event, 2, record.source.step);
  put_bytes(event, 5, summary);
  return event;
}

namespace {

std::string new_file(const std::string& folder) {
  make_folder(folder);
  static std::atomic<int> file_count = 0;
  return fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder,
                     static_cast<std::int64_t>(wall_seconds()), host_name(),
                     ::getpid(), file_count++);
}

}  // namespace

sink_pointer tensorboard_sink(const std::string& folder, std::int64_t resumed) {
  const auto file = std::make_shared<append_file>(new_file(folder));
  file->write(framed(version_event(wall_seconds())));
  if (resumed > 0)
    file->write(framed(session_event(wall_seconds(), resumed + 1)));
  return callback_sink([file](const metrics_record& record) {
    file->write(framed(summary_event(wall_seconds(), record)));
  });
}

}  // namespace troupe
