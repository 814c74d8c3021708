// What the tests of jobs share: runs of a job in many interleavings, and what is to be said of
// them.
#ifndef GORDIAN_TESTS_UNIT_MODEL_SIM_JOBS_HARNESS_H_
#define GORDIAN_TESTS_UNIT_MODEL_SIM_JOBS_HARNESS_H_

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {

inline constexpr int kSeeds = 12;

inline std::vector<int> Everyone(int n) {
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Communicators 0..n-1 of everybody.
inline std::vector<SimComm> Comms(int count, int ranks) {
  std::vector<SimComm> comms;
  for (int c = 0; c < count; ++c) {
    SimComm comm;
    comm.members = Everyone(ranks);
    comm.name = std::string(1, static_cast<char>('A' + c));
    comms.push_back(comm);
  }
  return comms;
}

inline Program operator+(Program a, const Program& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Program Inits(int count) {
  Program p;
  for (int c = 0; c < count; ++c) p.push_back(Init(c));
  return p;
}

struct Want {
  VerdictKind verdict;
  Confidence confidence;
  std::vector<int> culprits;
  std::string check;  // "": any
};

inline void ExpectVerdict(const Verdict& verdict, const Want& want) {
  EXPECT_STREQ(Name(verdict.main.verdict), Name(want.verdict)) << verdict.main.summary;
  EXPECT_STREQ(Name(verdict.main.confidence), Name(want.confidence)) << verdict.main.summary;
  EXPECT_EQ(verdict.main.culprit_ranks, want.culprits) << verdict.main.summary;
  if (!want.check.empty()) {
    EXPECT_EQ(verdict.main.check, want.check) << verdict.main.summary;
  }
  EXPECT_FALSE(verdict.main.summary.empty());
}

// Runs the job in many interleavings, with rounds on the way, until nothing moves; then for
// `seconds`.
inline void ExpectHang(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                       Want want, double seconds = 0.7, bool cold = false,
                       const std::function<void(SimJob*)>& set = {}) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimJob job(comms, programs, cold, static_cast<uint64_t>(seed));
    if (set) set(&job);
    JobModel model;
    do {
      job.Run(seed % 5 + 1);
      job.Feed(&model);
      job.Rounds(&model, 0.0001, 0.0001);
    } while (!job.Enabled().empty());
    job.Rounds(&model, seconds);
    const Verdict verdict = model.Current();
    ExpectVerdict(verdict, want);
    // A mismatch may let the job end.
    EXPECT_TRUE(model.HasUnfinished() || want.verdict == VerdictKind::kMismatch);
    if (want.verdict == VerdictKind::kDeadlock) {
      EXPECT_GE(verdict.main.cycle.size(), 2u);
      for (size_t i = 0; i < verdict.main.cycle.size(); ++i) {
        const WaitEdge& edge = verdict.main.cycle[i];
        EXPECT_EQ(edge.waits_for_rank,
                  verdict.main.cycle[(i + 1) % verdict.main.cycle.size()].rank);
        EXPECT_NE(edge.site.address, 0u);
        EXPECT_FALSE(edge.detail.empty());
      }
    }
    if (::testing::Test::HasFailure()) {
      for (const WaitEdge& e : verdict.main.cycle) {
        ADD_FAILURE() << e.rank << " -> " << e.waits_for_rank << " " << Name(e.reason) << ": "
                      << e.detail;
      }
      return;
    }
  }
}

// A suspicion comes once nothing has moved for the threshold of 5 s, and not before.
inline void ExpectAfterTheThreshold(SimJob* job, JobModel* model, const Want& want) {
  job->Rounds(model, 4);
  EXPECT_EQ(model->Current().main.verdict, VerdictKind::kHealthy);
  job->Rounds(model, 2);
  ExpectVerdict(model->Current(), want);
}

// Nothing is held against a job of which this is said: it is healthy, or slow somewhere.
inline bool AccusesNone(const Verdict& verdict) {
  return verdict.main.verdict == VerdictKind::kHealthy ||
         verdict.main.verdict == VerdictKind::kInconclusive || OnlySlow(verdict.main);
}

// The same with a job that must end; no verdict on the way accuses a rank.
inline void ExpectHealthy(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                          bool cold = false, const std::function<void(SimJob*)>& set = {}) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimJob job(comms, programs, cold, static_cast<uint64_t>(seed));
    if (set) set(&job);
    JobModel model;
    do {
      job.Run(seed % 5 + 1);
      // Two rounds at the same moment: what is stuck here would be confirmed.
      job.Rounds(&model, 0.4, 0.2);
      const Verdict verdict = model.Current();
      ASSERT_TRUE(AccusesNone(verdict))
          << Name(verdict.main.verdict) << ": " << verdict.main.summary;
    } while (!job.Enabled().empty());
    ASSERT_TRUE(job.Unfinished().empty());
    job.EndJob(&model);
    ExpectVerdict(model.Current(), {VerdictKind::kFinished, Confidence::kConfirmed, {}, ""});
  }
}

inline Want Deadlock(std::vector<int> culprits, const char* check) {
  return {VerdictKind::kDeadlock, Confidence::kConfirmed, std::move(culprits), check};
}

}  // namespace gordian::model::testing

#endif  // GORDIAN_TESTS_UNIT_MODEL_SIM_JOBS_HARNESS_H_
