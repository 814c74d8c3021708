#include "analyzer/exporters/operation_spool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace gordian::exporters {
namespace {

// Ranks as a test sets them: of communicator g the member m.
int RankOf(int group, int member) { return 10 * group + member; }

auto Fields(const LoggedOperation& one) {
  return std::tuple(one.process, one.order, one.call, one.group, one.member, one.root_or_peer,
                    one.sequence, one.count, one.datatype, one.reduce_op, one.stream, one.thread,
                    one.batch, one.called_ns, one.done_ns, one.progress, one.site_address);
}
using AllFields = decltype(Fields(LoggedOperation{}));

class OperationSpoolTest : public testing::Test {
 protected:
  void SetUp() override {
    StatusOr<ScratchFile> made = ScratchFile::In(std::filesystem::temp_directory_path().string());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    file_.emplace(std::move(made).value());
    spool_.emplace(&*file_);
  }

  std::vector<AllFields> Of(int rank, size_t keep = 0) {
    std::vector<AllFields> got;
    const Status status = spool_->ForEach(
        rank, RankOf, keep, [&](const LoggedOperation& one) { got.push_back(Fields(one)); });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return got;
  }

  std::optional<ScratchFile> file_;
  std::optional<OperationSpool> spool_;
};

TEST_F(OperationSpoolTest, KeepsEveryField) {
  LoggedOperation one;
  one.call = model::Call::kSend;
  one.group = 1;
  one.member = 2;
  one.root_or_peer = -1;
  one.sequence = UINT64_MAX;
  one.count = UINT64_MAX - 1;
  one.datatype = 9;
  one.reduce_op = 255;
  one.stream = UINT32_MAX;
  one.thread = UINT32_MAX - 1;
  one.batch = UINT32_MAX - 2;
  one.process = 7;
  one.order = UINT64_MAX - 2;
  one.called_ns = UINT64_MAX - 3;
  one.done_ns = UINT64_MAX - 4;
  one.progress = Progress::kAborted;
  one.site_address = UINT64_MAX - 5;
  spool_->Add(one);
  EXPECT_EQ(Of(12), std::vector{Fields(one)});
  EXPECT_EQ(Of(12), std::vector{Fields(one)});  // once more
  EXPECT_TRUE(Of(11).empty());
  EXPECT_EQ(spool_->Ranks(RankOf), std::set<int>{12});
}

TEST_F(OperationSpoolTest, LeavesOutTheFirstThatAreDone) {
  const auto add = [&](uint64_t order, Progress progress) {
    LoggedOperation one;
    one.process = 1;
    one.group = one.member = 0;
    one.order = order;
    one.progress = progress;
    spool_->Add(one);
  };
  add(1, Progress::kCalled);
  for (uint64_t order = 2; order <= 5; ++order) add(order, Progress::kDone);
  add(6, Progress::kStarted);
  const auto orders = [&](size_t keep) {
    std::vector<uint64_t> got;
    for (const AllFields& one : Of(0, keep)) got.push_back(std::get<1>(one));
    return got;
  };
  EXPECT_EQ(orders(0), (std::vector<uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(orders(6), orders(0));
  EXPECT_EQ(orders(4), (std::vector<uint64_t>{1, 4, 5, 6}));
  EXPECT_EQ(orders(1), (std::vector<uint64_t>{1, 6}));
}

// Operations of several streams become known in an order of their own: some at once, some late, some
// only at the end. More of them than are held in memory.
TEST_F(OperationSpoolTest, GivesThemInTheOrderOfCalls) {
  constexpr size_t kOperations = 150'000;
  std::mt19937_64 random(11);
  std::map<model::ProcessId, uint64_t> orders;
  std::vector<std::pair<uint64_t, LoggedOperation>> by_moment;  // when it becomes known
  std::map<int, std::vector<LoggedOperation>> naive;
  for (size_t i = 0; i < kOperations; ++i) {
    LoggedOperation one;
    one.process = 1 + static_cast<uint32_t>(random() % 5);
    one.group = static_cast<int>(random() % 3);
    one.member = static_cast<int>(one.process % 3);  // two processes may have one rank
    one.order = ++orders[one.process];
    one.sequence = random();
    one.progress = random() % 4 == 0 ? Progress::kStarted : Progress::kDone;
    const uint64_t late = random() % 1000 == 0 ? random() % kOperations : random() % 2000;
    by_moment.emplace_back(i + late, one);
    naive[RankOf(one.group, one.member)].push_back(one);
  }
  std::stable_sort(by_moment.begin(), by_moment.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [moment, one] : by_moment) spool_->Add(one);
  std::set<int> ranks;
  for (auto& [rank, all] : naive) {
    ranks.insert(rank);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair(a.process, a.order) < std::pair(b.process, b.order);
    });
    for (const size_t keep : {size_t{0}, all.size() / 2}) {
      size_t extra = keep == 0 ? 0 : all.size() - keep;
      std::vector<AllFields> wanted;
      for (const LoggedOperation& one : all) {
        if (extra > 0 && one.progress == Progress::kDone) {
          --extra;
        } else {
          wanted.push_back(Fields(one));
        }
      }
      EXPECT_TRUE(Of(rank, keep) == wanted) << "rank " << rank << ", keep " << keep;
    }
  }
  EXPECT_EQ(spool_->Ranks(RankOf), ranks);
}

}  // namespace
}  // namespace gordian::exporters
