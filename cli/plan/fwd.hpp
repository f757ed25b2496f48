#pragma once

// CLI11's header takes seconds: only what declares flags includes it.
namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI
