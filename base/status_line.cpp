#include "troupe/base/status_line.hpp"

#include <atomic>
#include <string>

#include "troupe/base/patient_write.hpp"

namespace troupe {

namespace {

constexpr std::string_view clears = "\r\033[K";

std::atomic<std::FILE*> shown_on = nullptr;

}  // namespace

bool show_status_line(std::FILE* terminal, std::string_view text) {
  shown_on = terminal;
  return print_all(terminal, std::string{clears}.append(text));
}

void clear_status_line() {
  if (auto* terminal = shown_on.exchange(nullptr))
    print_all(terminal, clears);
}

}  // namespace troupe
