// The ranks: those in an equal state share a row, culprits and those furthest behind come first.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/report/text_layout.h"
#include "analyzer/stacks/stack_text.h"
#include "cli/output.h"
#include "cli/status/status_words.h"
#include "cli/watch/row_filter.h"
#include "cli/watch/row_list.h"

namespace gordian::cli {
namespace {

class RankList final : public RowList {
 public:
  RankList(std::shared_ptr<const WatchData> data, const std::string& filter)
      : data_(std::move(data)) {
    const RowFilter wanted(filter);
    using State = std::tuple<bool, int64_t, std::string_view, std::string_view, std::string_view,
                             std::string_view>;
    std::map<State, size_t> places;
    for (size_t i = 0; i < data_->ranks.size(); ++i) {
      const WatchedRank& rank = data_->ranks[i];
      if (!wanted.everything() &&
          !wanted.Takes(rank.rank, {rank.state, rank.call, rank.operation, rank.site, rank.node,
                                    "pid " + std::to_string(rank.pid)})) {
        continue;
      }
      ++shown_;
      const auto [place, is_new] = places.try_emplace(
          {rank.culprit, rank.behind, rank.state, rank.call, rank.operation, rank.site},
          folds_.size());
      if (is_new) folds_.emplace_back();
      folds_[place->second].push_back(i);
    }
    std::stable_sort(folds_.begin(), folds_.end(), [&](const Fold& a, const Fold& b) {
      const WatchedRank &first = data_->ranks[a.front()], &second = data_->ranks[b.front()];
      if (first.culprit != second.culprit) return first.culprit;
      return first.behind > second.behind;
    });
    for (size_t row = 0; row < folds_.size(); ++row) {
      for (size_t member = 0; member < folds_[row].size(); ++member) {
        at_[data_->ranks[folds_[row][member]].id] = {row, member};
      }
    }
  }

  std::string Title() const override {
    const std::string all = Plural(static_cast<int64_t>(data_->ranks.size()), "rank");
    return shown_ == data_->ranks.size()
               ? all
               : WithCommas(shown_) + " of " + all + (shown_ == 1 ? " matches" : " match");
  }

  Texts Headings() const override {
    return {"RANK", "PID", "STATE", "SINCE", "BEHIND", "CALL", "UNFINISHED", "NODE", "AT"};
  }

  size_t rows() const override { return folds_.size(); }

  size_t members(size_t row) const override {
    return folds_[row].size() > 1 ? folds_[row].size() : 0;
  }

  Texts Cells(Place place) const override {
    const WatchedRank& rank = At(place);
    const bool one = IsOne(place);
    double since = rank.since_s;
    std::string node = rank.node;
    std::vector<int> ranks = {rank.rank};
    if (!one) {
      const Summary& all = SummaryOf(place.row);
      since = all.since_s;
      ranks = all.ranks;
      if (all.nodes > 1) node = std::to_string(all.nodes) + " nodes";
    }
    const bool in_own_code = rank.call.empty() && rank.state == "running";
    return {FoldRanks(std::move(ranks)) + (rank.culprit ? " !" : ""),
            one ? std::to_string(rank.pid) : "",
            rank.state,
            since < 0 ? "" : Duration(since),
            rank.behind > 0 ? Plural(rank.behind, "call") : "",
            in_own_code ? "in its own code" : rank.call,
            rank.operation,
            node,
            rank.site};
  }

  Texts Details(Place place) const override {
    const WatchedRank& rank = At(place);
    Texts lines;
    const auto say = [&lines](const std::string& what, const std::string& text) {
      if (!text.empty()) lines.push_back(what + text);
    };
    say("is in ", rank.call);
    if (rank.call.empty() && rank.state == "running") lines.push_back("is in its own code");
    say("at ", rank.site);
    say("not done: ", rank.operation);
    if (rank.behind > 0) say("behind by ", Plural(rank.behind, "call"));
    if (!IsOne(place)) {
      say("ranks ", FoldRanks(SummaryOf(place.row).ranks));
      return lines;
    }
    if (rank.culprit) lines.push_back("look at this rank first");
    std::string process = "pid " + std::to_string(rank.pid);
    if (!rank.node.empty()) process += " on " + rank.node;
    if (rank.incarnation > 1) {
      process += ", process " + std::to_string(rank.incarnation) + " of this rank";
    }
    if (rank.nccl_calls >= 0) process += ", " + Plural(rank.nccl_calls, "NCCL call");
    lines.push_back(process);
    std::vector<model::FoldedStack> stacks;
    for (const model::FoldedStack& stack : data_->verdict.stacks) {
      if (rank.rank >= 0 && std::binary_search(stack.ranks.begin(), stack.ranks.end(), rank.rank)) {
        stacks.push_back(stack);
      }
    }
    for (std::string& line : analyzer::StacksInFull(stacks)) lines.push_back(std::move(line));
    return lines;
  }

  std::string Id(Place place) const override { return At(place).id; }

  std::optional<Place> Find(const std::string& id) const override {
    const auto found = at_.find(id);
    if (found == at_.end()) return std::nullopt;
    return members(found->second.row) > 0 ? found->second : Place{found->second.row};
  }

 private:
  using Fold = std::vector<size_t>;  // places in WatchData::ranks
  struct Summary {
    std::vector<int> ranks;
    double since_s = -1;
    size_t nodes = 0;
  };

  bool IsOne(Place place) const {
    return place.member != kNoMember || folds_[place.row].size() == 1;
  }

  const WatchedRank& At(Place place) const {
    const Fold& fold = folds_[place.row];
    return data_->ranks[fold[place.member == kNoMember ? 0 : place.member]];
  }

  // Kept, since rows are drawn more often than they change.
  const Summary& SummaryOf(size_t row) const {
    const auto [known, is_new] = summaries_.try_emplace(row);
    if (is_new) {
      std::set<std::string_view> nodes;
      for (const size_t i : folds_[row]) {
        known->second.ranks.push_back(data_->ranks[i].rank);
        known->second.since_s = std::max(known->second.since_s, data_->ranks[i].since_s);
        nodes.insert(data_->ranks[i].node);
      }
      known->second.nodes = nodes.size();
    }
    return known->second;
  }

  const std::shared_ptr<const WatchData> data_;
  std::vector<Fold> folds_;
  std::unordered_map<std::string_view, Place> at_;
  size_t shown_ = 0;
  mutable std::map<size_t, Summary> summaries_;
};

}  // namespace

std::unique_ptr<RowList> MakeRankList(std::shared_ptr<const WatchData> data,
                                      const std::string& filter) {
  if (data->ranks.empty()) return nullptr;
  return std::make_unique<RankList>(std::move(data), filter);
}

}  // namespace gordian::cli
