// Rings that fill up, and threads that begin together: programs of job.cc under LD_PRELOAD.
#include <gtest/gtest.h>

#include "proto/ring/calls.h"
#include "tests/unit/interpose/job_runner.h"

namespace gordian::test {
namespace {

using namespace ring;  // NOLINT: the contract under test

TEST(ShimLife, KernelsAndEventsGiveWayToOperations) {
  const RingFile file = RunOne("flood", {{"GORDIAN_RING_SLOTS", "64"}});
  // 1,000 events, of which 48 records fit, less what came before; then all that a verdict needs.
  EXPECT_EQ(file.Of(kCall_ncclCommInitRank).size(), 2u);
  EXPECT_EQ(file.Of(kCall_ncclAllReduce).size(), 4u);
  EXPECT_EQ(file.Of(kCall_cudaStreamSynchronize).size(), 2u);
  const uint64_t events = file.Of(kCall_cudaEventRecord).size();
  EXPECT_EQ(events, 48u - 3);  // the communicator's two records, and the stream's
  EXPECT_EQ(file.header.lost_records, 1000 - events);
  EXPECT_EQ(file.header.order, file.records.size() + file.header.lost_records);
}

TEST(ShimLife, ThreadsThatBeginTogetherLoseNothing) {
  // The file system takes 20 ms for each ring: nobody may wait for somebody else's.
  const RingFile file = RunOne("begin-together");
  EXPECT_EQ(file.header.lost_records, 0u);
  EXPECT_EQ(file.threads.size(), 41u);
  EXPECT_EQ(file.Of(kCall_cudaEventRecord).size(), 40u);
}

TEST(ShimLife, ChildrenTakeNoLockThatTheParentHeld) {
  EXPECT_EQ(RunAll("fork-beside-opening", {{"JOB_CUPTI", GORDIAN_CUPTI_LOOKALIKE}}).exit_code, 0);
}

// The job runs on, unseen; the folder that the link leads to gets no ring and loses nothing.
TEST(ShimLife, ALinkInPlaceOfTheRingFolderIsNotFollowed) {
  RingFolder victim;
  RingFolder beside;
  const std::string link = beside.path() + "/rings";
  std::filesystem::create_directory_symlink(victim.path(), link);
  Job job("flood", link);
  job.Go();
  while (!job.Line().empty()) {
  }
  EXPECT_EQ(job.Wait(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(victim.path()));
}

}  // namespace
}  // namespace gordian::test
