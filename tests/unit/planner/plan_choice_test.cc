// P4: the choice table is never far from the best modelled plan, and the same on all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "planner/cost_model.h"

namespace gordian::planner {
namespace {

std::vector<double> SixteenSizes() {
  std::vector<double> sizes;
  for (int i = 0; i < 16; ++i) sizes.push_back(0.03125 * (1 << i));  // 32 KB to 1 GB, in MB
  return sizes;
}

MachineCost Frontier() {
  const PublishedFit fit = FrontierAllGather();
  MachineCost cost{.flat = fit.flat, .hierarchical = fit.hierarchical, .local = fit.local};
  cost.flat.kappa = cost.hierarchical.kappa = 1.2;
  cost.flat.reduction = 0.1;
  return cost;
}

TEST(P4, NeverMoreThanFivePercentAboveTheBest) {
  const MachineCost cost = Frontier();
  const std::vector<double> sizes = SixteenSizes();
  std::set<std::string> seen;
  int switches_without = 0, switches_with = 0;
  for (const bool reduce_scatter : {false, true}) {
    for (uint32_t p = 2; p <= 2048; ++p) {
      const std::vector<ChoiceRow> table = ChoiceTable(cost, p, sizes, reduce_scatter);
      const std::vector<ChoiceRow> eager = ChoiceTable(cost, p, sizes, reduce_scatter, 0);
      ASSERT_EQ(table.size(), 16u);
      for (size_t i = 0; i < table.size(); ++i) {
        // The best, computed here again.
        double best = std::min(FlatTime(cost.flat, InterPlan::kRing, p, sizes[i], reduce_scatter),
                               FlatTime(cost.flat, InterPlan::kBruck, p, sizes[i], reduce_scatter));
        if (p % 8 == 0 && p > 8) {
          const double more = reduce_scatter ? 0.1 * sizes[i] * (p - 1) / p : 0;
          for (const InterPlan inter : {InterPlan::kRing, InterPlan::kBruck}) {
            best = std::min(best,
                            HierarchicalTime(cost.hierarchical, inter, p / 8, 8, sizes[i]) + more);
          }
        }
        ASSERT_GE(table[i].chosen.time, best * (1 - 1e-12)) << p << " " << sizes[i];
        ASSERT_LE(table[i].chosen.time, best * 1.05 * (1 + 1e-12)) << p << " " << sizes[i];
        ASSERT_NEAR(eager[i].chosen.time, best, best * 1e-12);
        if (table[i].chosen.inter == InterPlan::kDoubling) {
          const uint32_t over = table[i].chosen.hierarchical ? p / 8 : p;
          ASSERT_TRUE(runtime::IsPowerOfTwo(over));
        }
        seen.insert(Name(table[i].chosen));
        if (i > 0) {
          const auto differ = [](const ChoiceRow& a, const ChoiceRow& b) {
            return a.chosen.inter != b.chosen.inter ||
                   a.chosen.hierarchical != b.chosen.hierarchical;
          };
          switches_with += differ(table[i], table[i - 1]);
          switches_without += differ(eager[i], eager[i - 1]);
        }
      }
    }
  }
  EXPECT_GE(seen.size(), 3u);
  EXPECT_GT(switches_with, 0);
  EXPECT_LE(switches_with, switches_without);
}

TEST(P4, SameTableOnAllRanks) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100; ++i) {
    std::vector<MachineCost> by_rank;
    for (int r = 0; r < 8; ++r) {  // every rank has measured something else
      MachineCost cost = Frontier();
      const auto noise = [&] { return std::normal_distribution<double>(1, 0.03)(random); };
      cost.flat.alpha *= noise();
      cost.flat.beta *= noise();
      cost.hierarchical.alpha_inter *= noise();
      cost.hierarchical.beta_inter *= noise();
      by_rank.push_back(cost);
    }
    std::set<uint64_t> hashes;
    for (int r = 0; r < 8; ++r) {  // and hears of the others in another order
      std::shuffle(by_rank.begin(), by_rank.end(), random);
      hashes.insert(HashOf(ChoiceTable(Agree(by_rank), 256, SixteenSizes(), false)));
    }
    ASSERT_EQ(hashes.size(), 1u);
  }
}

TEST(P4, TablesThatDifferHaveOtherHashes) {
  MachineCost slow = Frontier();
  slow.flat.alpha *= 50;
  EXPECT_NE(HashOf(ChoiceTable(Frontier(), 128, SixteenSizes(), false)),
            HashOf(ChoiceTable(slow, 128, SixteenSizes(), false)));
}

}  // namespace
}  // namespace gordian::planner
