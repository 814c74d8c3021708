// The table of launches against a map.
#include "analyzer/graph/kernel_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace gordian::graph {
namespace {

struct Value {
  uint64_t number = 0;
  std::vector<int> list;

  void Clear() {
    number = 0;
    list.clear();
  }
};

// Numbers in sequence, some of which stay for long, and those of processes of many nodes.
TEST(KernelTable, HoldsWhatAMapWould) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    KernelTable<Value> table;
    std::map<uint64_t, uint64_t> twin;
    uint64_t next = 1;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        const uint64_t id = seed % 2 == 0 ? next++ : (random() % 500 << 20) + random() % 8 + 1;
        Value& value = table[id];
        if (twin.count(id) == 0) {
          ASSERT_EQ(value.number, 0u);  // as new
          ASSERT_TRUE(value.list.empty());
        }
        value.number = random();
        value.list.push_back(1);
        twin[id] = value.number;
      } else {
        // An early one mostly, as launches end.
        const uint64_t id = twin.empty() ? 7 : std::next(twin.begin(), static_cast<long>(random() % std::min<size_t>(twin.size(), 5)))->first;
        if (random() % 3 == 0) continue;
        table.erase(id);
        twin.erase(id);
        ASSERT_EQ(table.Find(id), nullptr);
      }
      ASSERT_EQ(table.size(), twin.size());
    }
    std::map<uint64_t, uint64_t> held;
    for (const auto& [id, value] : table) held[id] = value.number;
    EXPECT_EQ(held, twin);
    for (const auto& [id, number] : twin) {
      ASSERT_EQ(table.count(id), 1u);
      EXPECT_EQ(table.at(id).number, number);
    }
    EXPECT_EQ(table.count(0), 0u);
    EXPECT_THROW(table.at(next + 1'000'000'000'000), std::out_of_range);
  }
}

TEST(KernelTable, ReferencesStayWhereTheyAre) {
  KernelTable<Value> table;
  Value* const first = &table[1];
  for (uint64_t id = 2; id < 10'000; ++id) table[id];
  for (uint64_t id = 2; id < 10'000; id += 2) table.erase(id);
  EXPECT_EQ(table.Find(1), first);
}

}  // namespace
}  // namespace gordian::graph
