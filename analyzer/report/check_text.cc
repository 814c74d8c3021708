#include "analyzer/report/check_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "analyzer/model/verdict/hang_classes.h"
#include "analyzer/report/text_layout.h"

namespace gordian::analyzer {
namespace {

using nlohmann::ordered_json;

constexpr int kMinWidth = 60;

const char* Yields(const model::Check& check) {
  return check.sign ? "sign" : model::Name(check.verdict);
}

// The ids of a row, "a, b".
std::vector<std::string> Ids(std::string_view list) {
  std::vector<std::string> ids;
  while (!list.empty()) {
    const size_t end = std::min(list.find(", "), list.size());
    ids.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return ids;
}

std::vector<const model::HangClass*> ClassesOf(const model::Check& check) {
  size_t count = 0;
  const model::HangClass* classes = model::HangClasses(&count);
  std::vector<const model::HangClass*> out;
  for (size_t i = 0; i < count; ++i) {
    if (classes[i].visibility == model::Visibility::kNotVisible) continue;
    const std::vector<std::string> ids = Ids(classes[i].checks);
    if (std::find(ids.begin(), ids.end(), check.id) != ids.end()) out.push_back(&classes[i]);
  }
  return out;
}

}  // namespace

std::string CheckList() {
  size_t count = 0;
  const model::Check* checks = model::AllChecks(&count);
  std::string text = fmt::format("{:<28}{:<17}{}\n", "CHECK", "YIELDS", "MEANS");
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("{:<28}{:<17}{}\n", checks[i].id, Yields(checks[i]), checks[i].title);
  }
  return text;
}

std::string CheckText(const model::Check& check, int columns) {
  const auto width = static_cast<size_t>(std::max(columns, kMinWidth));
  std::string text = fmt::format("{}: {} ({})\n", check.id, check.title, Yields(check));
  const auto add = [&](const char* label, const std::string& what) {
    if (!what.empty())
      text += Wrap(fmt::format("  {:<12}", label), std::string(14, ' '), what, width);
  };
  add("says", check.meaning);
  add("threshold", fmt::format("{}: {}", check.threshold.unit, check.threshold.value));
  add("evidence", check.evidence);
  add("fooled by", check.fooled);
  add("what to do", check.advice);
  for (const model::HangClass* row : ClassesOf(check)) {
    add("covers", fmt::format("{}. {} ({}, {})", row->number, row->title,
                              model::Name(row->visibility), row->test));
  }
  return text;
}

std::string CatalogueJson() {
  ordered_json out;
  out["schema"] = "gordian.checks.v1";
  out["checks"] = ordered_json::array();
  size_t count = 0;
  const model::Check* checks = model::AllChecks(&count);
  for (size_t i = 0; i < count; ++i) {
    const model::Check& check = checks[i];
    out["checks"].push_back({{"id", check.id},
                             {"yields", Yields(check)},
                             {"title", check.title},
                             {"meaning", check.meaning},
                             {"unit", check.threshold.unit},
                             {"threshold", check.threshold.value},
                             {"evidence", check.evidence},
                             {"fooled_by", check.fooled},
                             {"advice", check.advice}});
  }
  out["classes"] = ordered_json::array();
  const model::HangClass* classes = model::HangClasses(&count);
  for (size_t i = 0; i < count; ++i) {
    const model::HangClass& row = classes[i];
    const bool visible = row.visibility != model::Visibility::kNotVisible;
    ordered_json json = {
        {"number", row.number}, {"title", row.title}, {"visibility", model::Name(row.visibility)}};
    json["checks"] = visible ? ordered_json(Ids(row.checks)) : ordered_json::array();
    json["instead"] = visible ? "" : row.checks;
    json["test"] = row.test;
    json["twin"] = row.twin;
    json["note"] = row.note;
    out["classes"].push_back(std::move(json));
  }
  return out.dump(2) + "\n";
}

}  // namespace gordian::analyzer
