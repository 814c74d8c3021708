#include "analyzer/model/verdict/suspicion_table.h"

#include <gtest/gtest.h>

#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::model {
namespace {

SuspicionWords Words(std::vector<int> culprits, std::vector<int> victims) {
  SuspicionWords words;
  words.culprits = std::move(culprits);
  words.victims = std::move(victims);
  words.operation = "AllReduce #3 on dp";
  return words;
}

TEST(SuspicionTable, EveryRowNamesACheckAndFillsItsSentence) {
  for (int i = 0; i <= static_cast<int>(Suspicion::kEvidenceMissing); ++i) {
    const SuspicionRow& row = RowOf(static_cast<Suspicion>(i));
    EXPECT_NE(FindCheck(row.check), nullptr) << row.check;
    EXPECT_GE(row.patience_working, row.patience) << row.check;
    for (const SuspicionWords& words :
         {Words({1}, {0}), Words({1, 2}, {0, 3}), Words({1, 2}, {}), Words({}, {})}) {
      const std::string text = Sentence(row, words);
      EXPECT_EQ(text.find_first_of("{}|*"), std::string::npos) << text;
      EXPECT_EQ(text.back(), '.') << text;
    }
  }
}

TEST(SuspicionTable, SentencesFollowTheNumberOfCulprits) {
  const SuspicionRow& row = RowOf(Suspicion::kRankNotJoined);
  SuspicionWords one = Words({1}, {0});
  one.instead = "is in cudaFree";
  EXPECT_EQ(Sentence(row, one),
            "Rank 1 has not joined AllReduce #3 on dp, it is in cudaFree; rank 0 waits.");
  SuspicionWords two = Words({1, 2}, {0, 3});
  two.instead = "is in cudaFree";  // of one of them
  EXPECT_EQ(Sentence(row, two),
            "Ranks 1 and 2 have not joined AllReduce #3 on dp; ranks 0 and 3 wait.");
  EXPECT_EQ(Sentence(row, Words({1, 2}, {})),
            "Ranks 1 and 2 have not joined what others of them wait in, AllReduce #3 on dp for "
            "one.");
}

TEST(SuspicionTable, ARankThatWorksIsSaidWithoutAccusation) {
  SuspicionWords one = Words({1}, {0});
  one.instead = "last called a launch";
  EXPECT_EQ(Sentence(RowOf(Suspicion::kRankNotJoined), one, /*early=*/true),
            "Rank 1 has not joined AllReduce #3 on dp yet, it last called a launch; rank 0 waits.");
}

TEST(SuspicionTable, AKeyOfAStoreIsSetNotJoined) {
  SuspicionWords one = Words({1}, {0});
  one.operation = "a wait for key \"ready\" of the store";
  one.missed = "set key \"ready\" of the store";
  EXPECT_EQ(Sentence(RowOf(Suspicion::kHostBlocked), one),
            "Rank 1 has not set key \"ready\" of the store; rank 0 waits.");
}

TEST(SuspicionTable, WhatIsNotKnownIsLeftOut) {
  SuspicionWords words = Words({}, {0});
  EXPECT_EQ(Sentence(RowOf(Suspicion::kEvidenceMissing), words),
            "What rank 0 waits for in AllReduce #3 on dp was not seen.");
  words.operation.clear();
  words.unseen = "records of rank 1 were lost";
  EXPECT_EQ(Sentence(RowOf(Suspicion::kEvidenceMissing), words),
            "What rank 0 waits for was not seen: records of rank 1 were lost.");
}

}  // namespace
}  // namespace gordian::model
