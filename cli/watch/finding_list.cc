// The findings, worst first: the main one, further ones, and those that proved wrong.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/report.h"
#include "analyzer/report/text_layout.h"
#include "cli/status/status_words.h"
#include "cli/watch/row_list.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr int kReportWidth = 100;  // the screen breaks lines again where it is narrower

class FindingList final : public RowList {
 public:
  explicit FindingList(std::shared_ptr<const WatchData> data) : data_(std::move(data)) {
    const model::Verdict& verdict = data_->verdict;
    std::map<std::string, int> times;
    const auto add = [&](const model::Finding& finding, bool disproved) {
      std::string id = finding.check + "/" + FoldRanks(finding.culprit_ranks);
      if (const int before = times[id]++; before > 0) id += "/" + std::to_string(before);
      at_[id] = rows_.size();
      rows_.push_back({&finding, disproved, std::move(id)});
    };
    if (model::SaysTrouble(verdict.main.verdict)) add(verdict.main, false);
    for (const model::Finding& finding : verdict.findings) add(finding, false);
    for (const model::Finding& finding : verdict.disproved) add(finding, true);
  }

  std::string Title() const override {
    return Plural(static_cast<int64_t>(rows_.size()), "finding");
  }

  Texts Headings() const override {
    return {"FINDING", "CONFIDENCE", "LOOK AT", "CHECK", "SUMMARY"};
  }

  size_t rows() const override { return rows_.size(); }

  Texts Cells(Place place) const override {
    const auto& [finding, disproved, id] = rows_[place.row];
    std::string kind = model::Name(finding->verdict);
    std::replace(kind.begin(), kind.end(), '_', ' ');
    return {kind, disproved ? "disproved" : model::Name(finding->confidence),
            finding->culprit_ranks.empty() ? "" : analyzer::RankList(finding->culprit_ranks),
            Printable(finding->check), Printable(finding->summary)};
  }

  Texts Details(Place place) const override {
    model::Verdict alone;
    alone.main = *rows_[place.row].finding;
    const std::string text =
        analyzer::ExplainText(alone, data_->sites, {.color = false, .width = kReportWidth});
    Texts lines;
    if (rows_[place.row].disproved) {
      lines.push_back("gordian said this, and it ended after all");
    }
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  std::string Id(Place place) const override { return rows_[place.row].id; }

  std::optional<Place> Find(const std::string& id) const override {
    const auto found = at_.find(id);
    if (found == at_.end()) return std::nullopt;
    return Place{found->second};
  }

 private:
  struct Shown {
    const model::Finding* finding;
    bool disproved;
    std::string id;
  };

  const std::shared_ptr<const WatchData> data_;
  std::vector<Shown> rows_;
  std::unordered_map<std::string, size_t> at_;
};

}  // namespace

std::unique_ptr<RowList> MakeFindingList(std::shared_ptr<const WatchData> data) {
  auto list = std::make_unique<FindingList>(std::move(data));
  if (list->rows() == 0) return nullptr;
  return list;
}

}  // namespace gordian::cli
