// Scripts against the golden ones, which tests/unit/replayer/torch_scripts.py runs.
#include "replayer/write/torch_writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/version.h"
#include "replayer/reduce/minimizer.h"
#include "tests/unit/replayer/hang_shapes.h"

namespace gordian::replayer {
namespace {

using testing::Bury;
using testing::Calls;
using testing::HangShapes;
using testing::ScheduleBuilder;

std::string WithoutVersion(std::string text) {
  const std::string version = "gordian " + std::string(kVersion);
  for (size_t at = text.find(version); at != std::string::npos; at = text.find(version))
    text.replace(at, version.size(), "gordian VERSION");
  return text;
}

void Compare(const std::string& name, const Schedule& schedule) {
  const TorchProgram program = WriteTorch(schedule, {.file = name + ".py"});
  EXPECT_EQ(program.refused, std::vector<std::string>());
  const std::string text = WithoutVersion(program.text),
                    path = std::string(GORDIAN_GOLDEN_DIR) + "/" + name + ".py";
  if (getenv("GORDIAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::stringstream expected;
  expected << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_EQ(text, expected.str())
      << path << " differs. If the new text is right: GORDIAN_UPDATE_GOLDEN=1 with this test";
}

TEST(TorchGolden, MinimisedHangs) {
  for (const testing::HangShape& shape : HangShapes()) {
    if (shape.name == "split_divergent" || shape.name == "init_order" ||
        shape.name == "dead_rank" || shape.name == "group_against_order")
      continue;
    Schedule whole = Bury(shape, /*twin=*/false, 8, 3);
    whole.origin.check = shape.check;
    whole.origin.confidence = "confirmed";
    whole.origin.source = shape.name;
    Compare(shape.name, Minimize(whole).schedule);
  }
}

TEST(TorchGolden, AllThatThereIs) {
  ScheduleBuilder job(3);
  const int world = job.Comm("world", {0, 1, 2}), pair = job.Comm("pair", {0, 2}, /*cold=*/true);
  for (int rank = 0; rank < 3; ++rank) {
    Calls calls = job.On(rank);
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll})
      calls.Do(kind, world, 0, 256);
    for (const OpKind kind :
         {OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather, OpKind::kScatter})
      calls.Do(kind, world, 1, 256, 2);
    calls.GroupStart().Send(world, (rank + 1) % 3).Recv(world, (rank + 2) % 3).GroupEnd();
    if (rank == 0) calls.Send(pair, 1, 1);
    if (rank == 2) calls.Recv(pair, 0, 1);
    calls.Kernel(0).Record(0, 0).Wait(0, 1).EventSync(0).Poll(0).Free().Free().DeviceSync();
    calls.Add({.kind = OpKind::kCopy, .stream = 0});
  }
  job.schedule().environment.emplace_back("NCCL_PROTO", "LL");
  job.schedule().origin.notes.push_back("nothing in it \"hangs\" \\ it only calls");
  job.schedule().ranks[0].threads[0].ops[0].site = "train.py:88 step()";
  Compare("all_that_there_is", job.Build());
}

std::vector<std::string> RefusedOf(ScheduleBuilder& job) {
  const TorchProgram program = WriteTorch(job.Build(), {});
  EXPECT_EQ(program.text.empty(), !program.refused.empty());
  return program.refused;
}

TEST(TorchWriter, RefusesByNameWhatTorchCannotCall) {
  {
    ScheduleBuilder job(2);
    const int made = job.UnmadeComm("made", {0, 1});
    job.On(0).Init(made);
    job.On(1).Init(made);
    ASSERT_EQ(RefusedOf(job).size(), 2u);
    EXPECT_NE(RefusedOf(job)[0].find("created during the run (made)"), std::string::npos);
  }
  {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {1, 0});
    job.On(0).GroupStart().AllReduce(dp).GroupEnd().Destroy(tp).Kill(9);
    job.On(1).GroupStart().Send(dp, 0, 0).Send(dp, 0, 1).GroupEnd();
    EXPECT_EQ(RefusedOf(job),
              (std::vector<std::string>{"the order of ranks in tp: new_group sorts them",
                                        "groups that hold a collective (AllReduce)", "CommDestroy",
                                        "Kill: torchrun ends all ranks when one of them fails",
                                        "groups over several communicators or streams"}));
  }
  {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1});
    const OpId first = job.On(0).AllReduce(dp).last();
    job.On(1).AllReduce(dp).After(first);
    job.schedule().ranks[0].streams[0].kind = StreamKind::kBlocking;
    job.schedule().ranks[1].threads[0].ops[0].datatype = 5;
    EXPECT_EQ(RefusedOf(job),
              (std::vector<std::string>{
                  "streams that wait for the legacy default stream: those of torch.cuda do not",
                  "operations on ncclDataType_t 5",
                  "an order between calls of different ranks that is forced"}));
  }
}

}  // namespace
}  // namespace gordian::replayer
