// The members of one communicator that live in the calling process: one each for jobs with a
// process a rank, all of them for a job that is one process with many devices. Tests are written
// once for both.
#ifndef GORDIAN_TESTS_UNIT_EMULATOR_NCCL_MEMBERS_H_
#define GORDIAN_TESTS_UNIT_EMULATOR_NCCL_MEMBERS_H_

#include <functional>
#include <memory>
#include <vector>

#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::test {

struct Member {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
};

class Members {
 public:
  // One process a rank.
  static Members OfProcess(Rank& rank, int id_index, int nranks, int comm_rank) {
    Members members(rank, nranks);
    members.list_.push_back({comm_rank, rank.Init(id_index, nranks, comm_rank), MakeStream()});
    return members;
  }
  // All ranks here, on devices 0, 1 ...
  static Members OfAllDevices(Rank& rank, int nranks) {
    Members members(rank, nranks);
    std::vector<ncclComm_t> comms(nranks);
    REQUIRE_NCCL(ncclCommInitAll(comms.data(), nranks, nullptr));
    for (int r = 0; r < nranks; ++r) {
      rank.UseDevice(r);
      members.list_.push_back({r, comms[r], MakeStream()});
    }
    return members;
  }

  int nranks() const { return nranks_; }
  const std::vector<Member>& list() const { return list_; }

  // A buffer for each member, on its device.
  std::vector<std::unique_ptr<Buffer>> Buffers(size_t bytes) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const Member& member : list_) {
      Use(member);
      buffers.push_back(std::make_unique<Buffer>(bytes));
    }
    return buffers;
  }

  // `call` for each member, in one group, then waits for all of it.
  void Run(const std::function<void(size_t, const Member&)>& call) {
    REQUIRE_NCCL(ncclGroupStart());
    for (size_t i = 0; i < list_.size(); ++i) call(i, list_[i]);
    REQUIRE_NCCL(ncclGroupEnd());
    for (const Member& member : list_) Synchronize(member.stream);
  }

  void Destroy() {
    for (const Member& member : list_) REQUIRE_NCCL(ncclCommDestroy(member.comm));
  }

 private:
  Members(Rank& rank, int nranks) : rank_(rank), nranks_(nranks) {}
  void Use(const Member& member) {
    int device = 0;
    REQUIRE_NCCL(ncclCommCuDevice(member.comm, &device));
    rank_.UseDevice(device);
  }

  Rank& rank_;
  int nranks_;
  std::vector<Member> list_;
};

}  // namespace gordian::emu::test

#endif  // GORDIAN_TESTS_UNIT_EMULATOR_NCCL_MEMBERS_H_
