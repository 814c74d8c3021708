// No proof of a job that ends: random programs with threads, timers, answers and children, each run
// to its end. GORDIAN_TEST_PROGRAMS sets how many (4,000), GORDIAN_TEST_SEED the first.
#include <gtest/gtest.h>

#include <iostream>
#include <iterator>
#include <set>
#include <string>

#include "analyzer/model/verdict/check_catalogue.h"
#include "tests/unit/model/sim/random_programs.h"
#include "tests/unit/model/sim/reference_verdicts.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT

// Findings of trouble, of this confidence, by what they say.
std::set<std::string> Troubles(const Verdict& verdict, Confidence confidence) {
  std::set<std::string> troubles;
  const auto add = [&](const Finding& finding) {
    if (finding.confidence != confidence || !SaysTrouble(finding.verdict)) return;
    if (finding.verdict == VerdictKind::kMismatch) return;
    troubles.insert(finding.check + ": " + finding.summary);
  };
  add(verdict.main);
  for (const Finding& finding : verdict.findings) add(finding);
  return troubles;
}

// Programs that a proof was wrong about once, or the truth.
constexpr uint64_t kOutsideFailedOnce[] = {
    20261309, 20278617,  // a process exits while its own work or thread waits: that is no end of it
    20345781,  // a root exits, and the last that it said is older than the end of its part
};

TEST(Reference, NothingThatEndsIsProven) {
  const uint64_t programs = FromEnvironment("GORDIAN_TEST_PROGRAMS", 4000);
  const uint64_t seed = FromEnvironment("GORDIAN_TEST_SEED", 20260801);
  std::cout << "first seed " << seed << ", " << programs << " programs\n";
  uint64_t ended = 0, hung = 0, mismatches = 0, suspected = 0, proven = 0;
  for (uint64_t i = 0; i < programs; ++i) {
    const uint64_t number = i < std::size(kOutsideFailedOnce)
                                ? kOutsideFailedOnce[i]
                                : seed + i - std::size(kOutsideFailedOnce);
    const Case c = WithOutside(number);
    SimJob job = Make(c, number);
    JobModel model;
    std::set<std::string> confirmed;
    bool suspicion = false;
    const auto look = [&] {
      const Verdict verdict = model.Current();
      confirmed.merge(Troubles(verdict, Confidence::kConfirmed));
      suspicion |= !Troubles(verdict, Confidence::kSuspected).empty();
      return Mismatched(verdict);
    };
    bool mismatched = false;
    for (int stop = 0; stop < 8; ++stop) {
      job.Run(static_cast<int>(number % 13) + 5);
      job.Rounds(&model, 0.6, 0.3);
      mismatched |= look();
    }
    // Nothing moves until something sleeps no longer.
    for (int wakes = 0; wakes < 200; ++wakes) {
      job.Run();
      if (wakes < 3) {
        job.Rounds(&model, wakes == 0 ? 6.0 : 0.6, wakes == 0 ? 1.0 : 0.3);
        mismatched |= look();
      }
      if (job.Enabled().empty() && !job.Wake()) break;
    }
    job.Rounds(&model, 6.0, 0.6);
    mismatched |= look();
    if (mismatched) {
      ++mismatches;
      continue;
    }
    const bool ends = job.Unfinished().empty() && job.AllDone();
    (ends ? ended : hung) += 1;
    suspected += ends && suspicion;
    proven += !ends && !confirmed.empty();
    if (!ends) continue;
    ASSERT_TRUE(confirmed.empty())
        << "program " << i << " (GORDIAN_TEST_SEED=" << number << ")\n"
        << Print(c) << "it ends, and the model called this proven on the way:\n"
        << *confirmed.begin() << "\n"
        << Told(model.Current());
  }
  std::cout << ended << " end, " << suspected << " of them suspected on the way; " << hung
            << " hang, " << proven << " of them proven; " << mismatches << " mismatched\n";
  // Otherwise the comparison says nothing.
  EXPECT_GT(ended * 4, hung);
  EXPECT_GT(suspected * 50, ended);
  EXPECT_GT(proven * 10, hung);
}

}  // namespace
}  // namespace gordian::model
