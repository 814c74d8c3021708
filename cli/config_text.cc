#include "cli/config_text.h"

#include <sys/stat.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "common/budget.h"
#include "common/json_text.h"
#include "common/read_file.h"

namespace gordian::cli {
namespace {

[[noreturn]] void RefuseToml(const char*) { throw std::invalid_argument("malformed"); }

}  // namespace
}  // namespace gordian::cli

// Some malformed texts break what the parser asserts of itself, so assertions become errors. With
// NDEBUG the compiler would take what is asserted for granted.
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::gordian::cli::RefuseToml(#expr))
#include <toml++/toml.h>

namespace gordian::cli {
namespace {

using nlohmann::json;

// Returns the most dots that one key of the TOML text has outside of quotes. The parser makes a
// table of each part of a dotted key, and recurses as deep to destroy it. It bounds brackets itself.
size_t MostDots(std::string_view text) {
  size_t most = 0, dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view triple = c == '"' ? "\"\"\"" : "\'\'\'";
      const std::string_view end =
          text.substr(i).starts_with(triple) ? triple : triple.substr(0, 1);
      for (i += end.size(); i < text.size() && !text.substr(i).starts_with(end); ++i) {
        if (c == '"' && text[i] == '\\') ++i;
        if (end.size() == 1 && i < text.size() && text[i] == '\n') break;  // no text: an error
      }
      i += end.size() - 1;
      // Up to two more quotes before the last three belong to the text.
      for (int more = 0; end.size() == 3 && more < 2 && i + 1 < text.size() && text[i + 1] == c;
           ++more) {
        ++i;
      }
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      dots = 0;
    } else if (c == '.') {
      most = std::max(most, ++dots);
    } else if (c == '\n' || c == '=' || c == ',' || c == '{') {
      dots = 0;
    }
  }
  return most;
}

json FromToml(const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    json out = json::object();
    for (const auto& [key, value] : *table) {
      out[std::string(key.str())] = FromToml(value);
    }
    return out;
  }
  if (const toml::array* array = node.as_array()) {
    json out = json::array();
    for (const toml::node& value : *array) {
      out.push_back(FromToml(value));
    }
    return out;
  }
  if (const auto value = node.value<bool>(); node.is_boolean()) {
    return *value;
  }
  if (const auto value = node.value<int64_t>(); node.is_integer()) {
    return *value;
  }
  if (const auto value = node.value<double>(); node.is_floating_point()) {
    return *value;
  }
  if (const auto value = node.value<std::string>()) {
    return *value;
  }
  return "a date";  // no key takes a date, so the reader of the configuration rejects it
}

bool LooksLikeToml(const std::string& text, const std::string& name) {
  if (name.ends_with(".toml")) {
    return true;
  }
  const size_t at = text.find_first_not_of(" \t\r\n");
  // A TOML file may begin with a [table] and so look like JSON; no configuration of gordian does.
  return !name.ends_with(".json") && at != std::string::npos && text[at] != '{' && text[at] != '[';
}

}  // namespace

StatusOr<json> ParseConfigText(const std::string& text, const std::string& name) {
  if (LooksLikeToml(text, name)) {
    if (MostDots(text) > kMostDots) {
      return Status::InvalidArgument(name + ": a key has more than " + std::to_string(kMostDots) +
                                     " dots");
    }
    try {
      return FromToml(toml::parse(text));
    } catch (const toml::parse_error& error) {
      return Status::InvalidArgument(name + ": line " + std::to_string(error.source().begin.line) +
                                     ": " + std::string(error.description()));
    } catch (const std::invalid_argument& error) {
      return Status::InvalidArgument(name + ": not TOML: " + error.what());
    }
  }
  if (std::string_view key; NestsTooDeep(text, &key)) {
    return Status::InvalidArgument(name + ": " + (key.empty() ? "" : std::string(key) + ": ") +
                                   "lists and objects are nested more than " +
                                   std::to_string(kMostNesting) + " deep");
  }
  try {
    return json::parse(text);
  } catch (const json::exception& error) {  // a number that no double holds is no parse_error
    const std::string what = error.what();
    size_t at = what.find("at line");  // behind the library's own prefix
    if (at == std::string::npos) {
      at = what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2;
    }
    return Status::InvalidArgument(name + ": not JSON: " + what.substr(at));
  }
}

StatusOr<json> ReadConfigFile(const std::string& path) {
  if (path == "-") {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return ParseConfigText(text, "standard input");
  }
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument(path + " is a folder (a session goes with --from-trace)");
  }
  const StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  return ParseConfigText(*text, path);
}

}  // namespace gordian::cli
