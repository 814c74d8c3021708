// The communicators: those on which a member is behind come first.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "analyzer/report/text_layout.h"
#include "cli/output.h"
#include "cli/status/status_words.h"
#include "cli/watch/row_filter.h"
#include "cli/watch/row_list.h"

namespace gordian::cli {
namespace {

std::string CollectiveName(int64_t number) {
  return number < 0 ? "none" : "#" + std::to_string(number);
}

class CommunicatorList final : public RowList {
 public:
  CommunicatorList(std::shared_ptr<const WatchData> data, const std::string& filter)
      : data_(std::move(data)) {
    const RowFilter wanted(filter);
    for (size_t i = 0; i < data_->communicators.size(); ++i) {
      const WatchedCommunicator& comm = data_->communicators[i];
      if (comm.destroyed && !data_->job_ended) continue;
      ++all_;
      if (!wanted.TakesAny(comm.ranks, {comm.name, comm.uid, comm.site})) continue;
      at_[comm.id] = shown_.size();
      shown_.push_back(i);
    }
  }

  size_t all() const { return all_; }

  std::string Title() const override {
    const std::string all = Plural(static_cast<int64_t>(all_), "communicator");
    return shown_.size() == all_ ? all
                                 : WithCommas(shown_.size()) + " of " + all +
                                       (shown_.size() == 1 ? " matches" : " match");
  }

  Texts Headings() const override {
    return {"COMMUNICATOR", "RANKS", "LAST COLLECTIVE", "BEHIND", "MADE AT"};
  }

  size_t rows() const override { return shown_.size(); }

  Texts Cells(Place place) const override {
    const WatchedCommunicator& comm = At(place);
    return {comm.name, comm.members, Sequence(comm),
            comm.behind.empty() ? "" : analyzer::RankList(comm.behind), comm.site};
  }

  Texts Details(Place place) const override {
    const WatchedCommunicator& comm = At(place);
    Texts lines;
    lines.push_back("members: " + comm.members);
    if (comm.most < 0) {
      lines.push_back("no member has called a collective");
    } else if (comm.least == comm.most) {
      lines.push_back("last collective: " + CollectiveName(comm.most) + ", called by all");
    } else {
      lines.push_back("last collective: " + CollectiveName(comm.most) + " of the fastest member, " +
                      CollectiveName(comm.least) + " of the slowest");
    }
    if (!comm.behind.empty()) {
      lines.push_back("behind: " + FoldRanks(comm.behind) +
                      (comm.behind_by > 0 ? ", by up to " + Plural(comm.behind_by, "call") : ""));
    }
    std::string made = comm.made_by < 0 ? "" : "made by rank " + std::to_string(comm.made_by);
    if (!comm.site.empty()) made += (made.empty() ? "made at " : " at ") + comm.site;
    if (!made.empty()) lines.push_back(made);
    if (comm.destroyed) lines.push_back("destroyed");
    if (!comm.uid.empty()) lines.push_back("identity " + comm.uid);
    return lines;
  }

  std::string Id(Place place) const override { return At(place).id; }

  std::optional<Place> Find(const std::string& id) const override {
    const auto found = at_.find(id);
    if (found == at_.end()) return std::nullopt;
    return Place{found->second};
  }

 private:
  const WatchedCommunicator& At(Place place) const {
    return data_->communicators[shown_[place.row]];
  }

  static std::string Sequence(const WatchedCommunicator& comm) {
    return comm.least == comm.most
               ? CollectiveName(comm.most)
               : CollectiveName(comm.least) + " to " + CollectiveName(comm.most);
  }

  const std::shared_ptr<const WatchData> data_;
  std::vector<size_t> shown_;
  std::unordered_map<std::string, size_t> at_;
  size_t all_ = 0;
};

}  // namespace

std::unique_ptr<RowList> MakeCommunicatorList(std::shared_ptr<const WatchData> data,
                                              const std::string& filter) {
  auto list = std::make_unique<CommunicatorList>(std::move(data), filter);
  if (list->all() == 0) return nullptr;
  return list;
}

}  // namespace gordian::cli
