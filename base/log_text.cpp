#include "troupe/base/log_text.hpp"

#include "troupe/base/printable.hpp"

namespace troupe {

std::string log_text(std::string_view text, std::size_t most) {
  std::string shown;
  for (const auto c : plain_text(text.substr(0, most))) {
    shown += c;
    if (c == '\n')
      shown += "    ";
  }
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace troupe
