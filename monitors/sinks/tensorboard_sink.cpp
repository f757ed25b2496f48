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
#include "troupe/base/parse_number.hpp"
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

/// As Markdown, which TensorBoard renders: indented lines are code.
std::string text_of(const std::vector<run_setting>& settings) {
  std::string text;
  for (const auto& each : settings)
    text += fmt::format("    {} = {}\n", each.name, each.value);
  return text;
}

std::string metadata_of(std::string_view plugin, std::string_view content) {
  std::string data, metadata;
  put_bytes(data, 1, plugin);
  put_bytes(data, 2, content);
  put_bytes(metadata, 1, data);
  return metadata;
}

/// A summary's value: a text as a tensor.
std::string text_value(std::string_view text) {
  constexpr int strings = 7;  // DataType.DT_STRING
  std::string tensor, value;
  put_integer(tensor, 1, strings);
  put_bytes(tensor, 2, "");  // the shape of a scalar
  put_bytes(tensor, 8, text);
  put_bytes(value, 1, "config");
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata_of("text", ""));
  return value;
}

/// A google.protobuf.Value.
std::string hyperparameter(std::string_view toml) {
  std::string value;
  if (const auto number = parse_number<double>(toml))
    put_double(value, 2, *number);
  else if (toml == "true" || toml == "false")
    put_integer(value, 4, toml == "true");
  else if (toml.size() >= 2 && toml.front() == '"' && toml.back() == '"')
    put_bytes(value, 3, toml.substr(1, toml.size() - 2));
  else
    put_bytes(value, 3, toml);
  return value;
}

/// A summary's value: an HParamsPluginData with a SessionStartInfo.
std::string session_value(double wall_time,
                          const std::vector<run_setting>& settings) {
  std::string session, data, value;
  for (const auto& each : settings) {
    std::string entry;
    put_bytes(entry, 1, each.name);
    put_bytes(entry, 2, hyperparameter(each.value));
    put_bytes(session, 1, entry);
  }
  put_double(session, 5, wall_time);
  put_bytes(data, 3, session);
  put_bytes(value, 1, "_hparams_/session_start_info");
  put_bytes(value, 9, metadata_of("hparams", data));
  return value;
}

}  // namespace

std::string settings_event(double wall_time,
                           const std::vector<run_setting>& settings) {
  std::string summary, event;
  put_bytes(summary, 1, text_value(text_of(settings)));
  put_bytes(summary, 1, session_value(wall_time, settings));
  put_double(event, 1, wall_time);
  put_integer(event, 2, 0);
  put_bytes(event, 5, summary);
  return event;
}

namespace {

class event_file_sink final : public sink {
 public:
  explicit event_file_sink(const std::string& path) : file_(path) {}
  void write_event(const std::string& event) { file_.write(framed(event)); }
  void write(const metrics_record& record) override {
    write_event(summary_event(wall_seconds(), record));
  }
  void write(const alert&) override {}
  void describe(const std::vector<run_setting>& settings) override {
    write_event(settings_event(wall_seconds(), settings));
  }

 private:
  append_file file_;
};

std::string new_file(const std::string& folder) {
  make_folder(folder);
  static std::atomic<int> file_count = 0;
  return fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder,
                     static_cast<std::int64_t>(wall_seconds()), host_name(),
                     ::getpid(), file_count++);
}

}  // namespace

sink_pointer tensorboard_sink(const std::string& folder, std::int64_t resumed) {
  auto file = std::make_shared<event_file_sink>(new_file(folder));
  file->write_event(version_event(wall_seconds()));
  if (resumed > 0)
    file->write_event(session_event(wall_seconds(), resumed + 1));
  return file;
}

}  // namespace troupe
