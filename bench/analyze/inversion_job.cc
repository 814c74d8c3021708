#include "bench/analyze/inversion_job.h"

#include <cstdlib>
#include <utility>

#include "testing/jobs/recorded_job.h"

namespace gordian::bench {
namespace {

constexpr uint64_t kWorld = 1, kTensorLow = 2, kTensorHigh = 3, kDataEven = 4, kDataOdd = 5,
                   kPipeline = 6;
constexpr uint32_t kCompute = 1, kCommunication = 2;
constexpr int kLibraryThreads = 6;  // as NCCL and CUDA have them

uint64_t TensorOf(int rank) { return rank < 4 ? kTensorLow : kTensorHigh; }
uint64_t DataOf(int rank) { return rank % 2 == 0 ? kDataEven : kDataOdd; }

void Step(gordian::testing::RecordedJob* job, int step) {
  for (int rank = 0; rank < kRanks; ++rank) {
    job->Kernels(rank, kCompute);
    job->Collective(rank, "ncclAllReduce", TensorOf(rank), kCommunication, 1 << 20);
    if (rank == 3) job->Send(rank, kPipeline, 1, kCommunication, 1 << 16);
    if (rank == 4) job->Receive(rank, kPipeline, 0, kCommunication, 1 << 16);
    job->Collective(rank, "ncclReduceScatter", DataOf(rank), kCommunication, 1 << 18);
    if (step % 5 == 0) job->Collective(rank, "ncclAllReduce", kWorld, kCommunication, 1);
    job->RecordEvent(rank, kCommunication, 0xe0);
    job->BeginSynchronize(rank, kCommunication);
  }
  job->Sleep(20'000'000);
  job->Round();
  job->AllDone();
  for (int rank = 0; rank < kRanks; ++rank) job->EndSynchronize(rank);
}

gordian::testing::RecordedJob Build(int steps, int padding) {
  gordian::testing::RecordedJob job(kRanks, "/opt/job/train");
  job.SetLibraryThreads(kLibraryThreads);
  job.MakeCommunicator(kWorld, {0, 1, 2, 3, 4, 5, 6, 7}, "world");
  job.MakeCommunicator(kTensorLow, {0, 1, 2, 3}, "tp0");
  job.MakeCommunicator(kTensorHigh, {4, 5, 6, 7}, "tp1");
  job.MakeCommunicator(kDataEven, {0, 2, 4, 6}, "dp0");
  job.MakeCommunicator(kDataOdd, {1, 3, 5, 7}, "dp1");
  job.MakeCommunicator(kPipeline, {3, 4}, "pp");
  for (int rank = 0; rank < kRanks; ++rank) {
    job.MakeStream(rank);
    job.MakeStream(rank);
  }
  for (int step = 0; step < steps; ++step) Step(&job, step);
  for (int i = 0; i < padding; ++i) job.RecordEvent(i % kRanks, kCommunication, 0xe1);

  for (int rank = 0; rank < kRanks; ++rank) {
    std::pair<uint64_t, uint64_t> order(TensorOf(rank), DataOf(rank));
    if (rank == kSecondCulprit) std::swap(order.first, order.second);
    job.Collective(rank, "ncclAllReduce", order.first, kCommunication, 1 << 20);
    job.Collective(rank, "ncclAllReduce", order.second, kCommunication, 1 << 20);
  }
  // What can still happen: the groups without rank 0 and 2 go through.
  for (int rank : {4, 5, 6, 7}) {
    job.Done(rank, kCommunication, job.Enqueued(rank, kCommunication) - 1);
  }
  for (int rank = 0; rank < kRanks; ++rank) job.BeginSynchronize(rank, kCommunication);
  for (int i = 0; i < 3; ++i) {
    job.Sleep(100'000'000);
    job.Round();
  }
  return job;
}

}  // namespace

std::vector<v1::Event> InversionJob(int events) {
  const auto wanted = static_cast<size_t>(events);
  int steps = 0;
  while (Build(steps + 1, 0).events().size() <= wanted) ++steps;
  const size_t without = Build(steps, 0).events().size();
  if (without > wanted) abort();  // not even the end of the job is so short
  std::vector<v1::Event> made = Build(steps, static_cast<int>(wanted - without)).events();
  if (made.size() != wanted) abort();  // padding adds one event each, or the books are wrong
  return made;
}

}  // namespace gordian::bench
