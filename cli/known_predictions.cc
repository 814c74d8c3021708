#include "cli/known_predictions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json_text.h"
#include "common/read_file.h"

namespace gordian::cli {
namespace {

// The list of what was found, by the output's schema. Null: it is no such output.
const char* ListIn(const nlohmann::json& output) {
  if (!output.is_object()) return nullptr;
  const nlohmann::json schema = output.value("schema", nlohmann::json());
  if (schema == "gordian.predict.v1") return "predicted";
  return schema == "gordian.explore.v1" ? "found" : nullptr;
}

}  // namespace

StatusOr<KnownPredictions> KnownPredictions::Read(const std::string& path) {
  KnownPredictions known;
  if (path.empty()) return known;
  const StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  const auto output = ParseJson<nlohmann::json>(*text);
  const auto wrong =
      Status::InvalidArgument(path + " is no output of gordian predict or explore with --json");
  const char* const list = ListIn(output);
  if (list == nullptr) return wrong;
  known.given_ = true;
  const nlohmann::json none = nlohmann::json::array();
  for (const nlohmann::json& prediction : output.value(list, none)) {
    if (!prediction.is_object()) return wrong;
    std::set<std::string> sites;
    for (const nlohmann::json& site : prediction.value("sites", none)) {
      if (!site.is_string()) return wrong;
      sites.insert(site.get<std::string>());
    }
    known.sites_.insert(std::move(sites));
  }
  return known;
}

bool KnownPredictions::HasAll(const std::vector<replayer::Prediction>& predictions) const {
  return std::all_of(predictions.begin(), predictions.end(),
                     [&](const replayer::Prediction& found) { return Has(found); });
}

}  // namespace gordian::cli
