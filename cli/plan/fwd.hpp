#pragma once

// CLI11's header compiles slowly, so only files that declare flags include it.
namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI
