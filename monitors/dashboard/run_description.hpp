#pragma once

#include <string>

namespace troupe {

/// What a page says of a run; empty texts are left out.
struct run_description {
  std::string name{};     // in the browser's tab
  std::string model{};    // "gpt, 1.2M parameters"
  std::string command{};  // that started it
};

}  // namespace troupe
