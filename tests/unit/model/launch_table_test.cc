// The table of launches against a map.
#include "analyzer/model/facts/launch_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace gordian::model {
namespace {

struct Value {
  uint64_t id = 0;
  uint64_t number = 0;
  std::vector<int> list;

  void Clear() {
    id = number = 0;
    list.clear();
  }
};

TEST(LaunchTable, HoldsWhatAMapWould) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    LaunchTable<Value> table;
    std::map<uint64_t, uint64_t> twin;
    uint64_t last = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        Value& value = table.Add();
        ASSERT_GT(value.id, last);
        last = value.id;
        ASSERT_EQ(value.number, 0u);  // as new
        ASSERT_TRUE(value.list.empty());
        value.number = random();
        value.list.push_back(1);
        twin[value.id] = value.number;
      } else {
        // An early one mostly, as launches end; now and then one that is over.
        const auto early = [&] {
          return std::next(twin.begin(),
                           static_cast<long>(random() % std::min<size_t>(twin.size(), 5)))
              ->first;
        };
        const uint64_t id = twin.empty() || random() % 8 == 0 ? last : early();
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
    EXPECT_EQ(table.count(last + 1), 0u);
    EXPECT_THROW(table.at(UINT64_MAX), std::out_of_range);
  }
}

// A number is not found in the launch that has taken the place of its own.
TEST(LaunchTable, NumbersAreNotGivenTwice) {
  LaunchTable<Value> table;
  const uint64_t first = table.Add().id;
  table.erase(first);
  const uint64_t second = table.Add().id;
  EXPECT_EQ(table.Find(first), nullptr);
  ASSERT_NE(table.Find(second), nullptr);
  table.erase(first);
  EXPECT_NE(table.Find(second), nullptr);
}

TEST(LaunchTable, ReferencesStayWhereTheyAre) {
  LaunchTable<Value> table;
  Value* const first = &table.Add();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 10'000; ++i) ids.push_back(table.Add().id);
  for (size_t i = 0; i < ids.size(); i += 2) table.erase(ids[i]);
  EXPECT_EQ(table.Find(first->id), first);
}

}  // namespace
}  // namespace gordian::model
