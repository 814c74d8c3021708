#include "cli/status/status_fields.h"

#include <nlohmann/json.hpp>

#include "common/utf8.h"

namespace gordian::cli {

using nlohmann::ordered_json;

std::string FieldText(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? Printable(found->get<std::string>()) : "";
}

int64_t FieldNumber(const ordered_json& from, const char* key, int64_t otherwise) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

double FieldReal(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : -1;
}

bool FieldFlag(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}

std::vector<const ordered_json*> FieldList(const ordered_json& from, const char* key) {
  std::vector<const ordered_json*> items;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) {
    return items;
  }
  for (const ordered_json& item : *found) {
    if (item.is_object()) {
      items.push_back(&item);
    }
  }
  return items;
}

std::vector<std::string> FieldTexts(const ordered_json& from, const char* key) {
  std::vector<std::string> texts;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) {
    return texts;
  }
  for (const ordered_json& item : *found) {
    if (item.is_string()) {
      texts.push_back(Printable(item.get<std::string>()));
    }
  }
  return texts;
}

std::vector<int> FieldRanks(const ordered_json& from, const char* key) {
  std::vector<int> ranks;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) {
    return ranks;
  }
  for (const ordered_json& item : *found) {
    if (item.is_number_integer()) {
      ranks.push_back(item.get<int>());
    }
  }
  return ranks;
}

}  // namespace gordian::cli
