// Reads configuration files, JSON or TOML, into one JSON value.
#ifndef GORDIAN_CLI_CONFIG_TEXT_H_
#define GORDIAN_CLI_CONFIG_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/status.h"

namespace gordian::cli {

// Reads `path`; "-" is standard input. A name that ends in .toml, or text that does not begin as
// JSON does, is TOML. Errors name the file and, where the parser says so, line and column.
StatusOr<nlohmann::json> ReadConfigFile(const std::string& path);

// The same from text; `name` is for errors.
StatusOr<nlohmann::json> ParseConfigText(const std::string& text, const std::string& name);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_CONFIG_TEXT_H_
