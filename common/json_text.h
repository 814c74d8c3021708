// Parses JSON that others wrote.
#ifndef GORDIAN_COMMON_JSON_TEXT_H_
#define GORDIAN_COMMON_JSON_TEXT_H_

#include <cstddef>
#include <string_view>

#include "common/budget.h"

namespace gordian {

// Whether lists and objects of `json` nest deeper than kMostNesting. Any bytes. *key, unless null,
// becomes the last text of the outermost object before the place, which is its key.
constexpr bool NestsTooDeep(std::string_view json, std::string_view* key = nullptr) {
  size_t depth = 0, begin = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
      if (!in_text && depth == 1 && key != nullptr) *key = json.substr(begin, i - begin);
    } else if (c == '"') {
      in_text = true;
      begin = i + 1;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostNesting) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// `Json` is nlohmann::json or nlohmann::ordered_json. The value is_discarded() if `text` is no JSON
// or nests too deep; throws nothing.
template <typename Json>
Json ParseJson(std::string_view text) {
  if (NestsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace gordian

#endif  // GORDIAN_COMMON_JSON_TEXT_H_
