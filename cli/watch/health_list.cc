// How much gordian saw: what it lost, did not see and assumes, signs, and the job's nodes, of which
// those in one state share a row.
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/text_layout.h"
#include "cli/output.h"
#include "cli/status/status_words.h"
#include "cli/watch/row_filter.h"
#include "cli/watch/row_list.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

class HealthList final : public RowList {
 public:
  HealthList(std::shared_ptr<const WatchData> data, const std::string& filter)
      : data_(std::move(data)), wanted_(filter) {
    const model::Evidence& evidence = data_->verdict.main.evidence;
    if (data_->nodes.size() > 1) {
      AddNodes("away", [](const WatchedNode& node) { return node.away; });
      AddNodes("connected", [](const WatchedNode& node) { return !node.away && !node.ended; });
      AddNodes("ended", [](const WatchedNode& node) { return !node.away && node.ended; });
    }
    if (evidence.records_lost > 0) {
      Add("lost", Plural(static_cast<int64_t>(evidence.records_lost), "record"), {});
    }
    for (const std::string& text : evidence.not_visible) Add("not seen", Printable(text), {});
    for (const std::string& text : evidence.assumes) Add("assumes", Printable(text), {});
    for (const model::Sign& sign : data_->verdict.signs) {
      Texts more = {Printable(sign.check) +
                    (sign.ranks.empty() ? "" : ", " + analyzer::RankList(sign.ranks))};
      if (model::FindCheck(sign.check) != nullptr) {
        more.push_back(model::CheckById(sign.check).advice);
      }
      Add("sign", Printable(sign.text), std::move(more));
    }
  }

  size_t all() const { return all_; }

  std::string Title() const override {
    return rows_.size() == all_ ? "what gordian saw"
                                : "what gordian saw: " + WithCommas(rows_.size()) + " of " +
                                      Plural(static_cast<int64_t>(all_), "row");
  }

  Texts Headings() const override { return {"", ""}; }

  size_t rows() const override { return rows_.size(); }
  size_t members(size_t row) const override { return rows_[row].nodes.size(); }

  Texts Cells(Place place) const override {
    const Shown& row = rows_[place.row];
    if (place.member == kNoMember) return {row.what, row.text};
    const WatchedNode& node = data_->nodes[row.nodes[place.member]];
    return {"", (node.number < 0 ? "" : std::to_string(node.number) + "  ") + node.name};
  }

  bool CanOpen(Place place) const override { return place.member == kNoMember; }

  Texts Details(Place place) const override {
    const Shown& row = rows_[place.row];
    if (!row.nodes.empty()) return {};
    Texts lines = {row.text};
    lines.insert(lines.end(), row.more.begin(), row.more.end());
    return lines;
  }

  std::string Id(Place place) const override {
    const Shown& row = rows_[place.row];
    if (place.member == kNoMember) return row.id;
    return "node/" + data_->nodes[row.nodes[place.member]].name;
  }

  std::optional<Place> Find(const std::string& id) const override {
    const auto found = at_.find(id);
    if (found == at_.end()) return std::nullopt;
    return found->second;
  }

 private:
  struct Shown {
    std::string id, what, text;
    Texts more;
    std::vector<size_t> nodes;  // places in WatchData::nodes
  };

  void Add(const std::string& what, const std::string& text, Texts more) {
    ++all_;
    if (!wanted_.TakesAny({}, {what, text})) return;
    // A count in the text grows, and the row stays the same.
    std::string id = what + "/" + model::WithoutCount(text);
    at_.try_emplace(id, Place{rows_.size()});
    rows_.push_back({std::move(id), what, text, std::move(more), {}});
  }

  void AddNodes(const std::string& state, bool (*is_in)(const WatchedNode&)) {
    std::vector<size_t> nodes;
    size_t in_state = 0;
    for (size_t i = 0; i < data_->nodes.size(); ++i) {
      if (!is_in(data_->nodes[i])) continue;
      ++in_state;
      if (wanted_.TakesAny({}, {data_->nodes[i].name, state})) nodes.push_back(i);
    }
    if (in_state == 0) return;
    ++all_;
    if (nodes.empty()) return;
    const std::string id = "nodes/" + state;
    at_[id] = {rows_.size()};
    for (size_t member = 0; member < nodes.size(); ++member) {
      at_.try_emplace("node/" + data_->nodes[nodes[member]].name, Place{rows_.size(), member});
    }
    rows_.push_back(
        {id, "nodes", Plural(static_cast<int64_t>(nodes.size()), "node") + " " + state, {}, nodes});
  }

  const std::shared_ptr<const WatchData> data_;
  const RowFilter wanted_;
  std::vector<Shown> rows_;
  std::unordered_map<std::string, Place> at_;
  size_t all_ = 0;
};

}  // namespace

std::unique_ptr<RowList> MakeHealthList(std::shared_ptr<const WatchData> data,
                                        const std::string& filter) {
  auto list = std::make_unique<HealthList>(std::move(data), filter);
  if (list->all() == 0) return nullptr;
  return list;
}

}  // namespace gordian::cli
