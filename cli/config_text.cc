#include "cli/config_text.h"

#include <sys/stat.h>
#include <toml++/toml.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/read_file.h"

namespace gordian::cli {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

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
    try {
      return FromToml(toml::parse(text));
    } catch (const toml::parse_error& error) {
      return Status::InvalidArgument(name + ": line " + std::to_string(error.source().begin.line) +
                                     ": " + std::string(error.description()));
    }
  }
  // The error path and the destructor of deeper values would recurse just as deep and overflow the
  // stack.
  std::string key;
  bool too_deep = false;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !too_deep) {
      key = parsed.get<std::string>();
    }
    too_deep |= depth > kDeepest;
    return depth <= kDeepest;
  };
  try {
    json document = json::parse(text, look);
    if (too_deep) {
      return Status::InvalidArgument(name + ": " + (key.empty() ? "" : key + ": ") +
                                     "lists and objects are nested more than " +
                                     std::to_string(kDeepest) + " deep");
    }
    return document;
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
