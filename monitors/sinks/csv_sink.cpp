#include "troupe/monitors/sinks/csv_sink.hpp"

#include <fmt/format.h>

#include <cmath>

#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos)
    return field;
  std::string text = "\"";
  for (const auto c : field)
    text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// Without the sign that some NaNs have.
std::string number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

class table_sink final : public sink {
 public:
  explicit table_sink(const std::string& path) : file_(path) {
    file_.write("step,phase,name,value\r\n");
  }

  void write(const metrics_record& record) override {
    std::string rows;
    for (const auto& each : record.values)
      rows += fmt::format("{},{},{},{}\r\n", record.source.step,
                          phase_name(record.source.phase), quoted(each.name),
                          number(each.value));
    file_.write(rows);
  }

  void write(const alert&) override {}

 private:
  append_file file_;
};

}  // namespace

sink_pointer csv_sink(const std::string& path) {
  return std::make_shared<table_sink>(path);
}

}  // namespace troupe
