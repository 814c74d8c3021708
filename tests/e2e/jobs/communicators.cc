// Calls that all members of a communicator make, and that do not meet.

#include "tests/e2e/jobs/job.h"

JOB(init_missing, 3) {
  // The last rank never comes: it takes another branch.
  cudaStream_t s = c.Stream();
  ncclUniqueId id = c.Id("world", 0);
  c.BeLateIfAsked();
  if (!c.twin && c.rank == c.nranks - 1) c.SleepInUserCode(3600);
  ncclComm_t world = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&world, c.nranks, id, c.rank));
  c.Warm(world, s);
}

JOB(exited_before_init, 3) {
  // The last rank ends at its start, as one that cannot read its input.
  cudaStream_t s = c.Stream();
  ncclUniqueId id = c.Id("world", 0);
  if (!c.twin && c.rank == c.nranks - 1) {
    c.Step("exit");
    std::_Exit(8);
  }
  ncclComm_t world = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&world, c.nranks, id, c.rank));
  c.Warm(world, s);
}

JOB(init_order, 2) {
  cudaStream_t s = c.Stream();
  ncclUniqueId first = c.Id("first", 0);
  ncclUniqueId second = c.Id("second", 0);
  c.BeLateIfAsked();
  bool reverse = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t a = nullptr;
  ncclComm_t b = nullptr;
  c.Step("init 1");
  NCCL_OK(ncclCommInitRank(&a, c.nranks, reverse ? second : first, c.rank));
  c.Step("init 2");
  NCCL_OK(ncclCommInitRank(&b, c.nranks, reverse ? first : second, c.rank));
  c.Warm(reverse ? b : a, s);
  c.Warm(reverse ? a : b, s);
}

JOB(split_divergent, 3) {
  // One rank believes that it needs no group of its own and skips the split.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  bool skips = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t half = nullptr;
  c.Step("split");
  if (!skips) {
    NCCL_OK(ncclCommSplit(world, c.rank % 2, c.rank, &half, nullptr));
    c.Warm(half, s);
  } else {
    c.SleepInUserCode(3600);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(split_against_all_reduce, 3) {
  // The skipping rank goes straight on to the all-reduce on the parent and waits there.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  bool skips = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t half = nullptr;
  c.Step("split");
  if (!skips) {
    NCCL_OK(ncclCommSplit(world, c.rank % 2, c.rank, &half, nullptr));
    c.Warm(half, s);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

namespace {

// A communicator of all but the last rank, and what it grows into when the last one joins. Who
// stays away sleeps.
struct Growth {
  ncclComm_t pair;
  ncclComm_t all;
};
Growth Grow(job::Context& c, cudaStream_t s, int stays_away) {
  auto* get_id = job::Newer<ncclResult_t(ncclComm_t, ncclUniqueId*)>("ncclCommGetUniqueId");
  auto* grow = job::Newer<ncclResult_t(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*,
                                       ncclConfig_t*)>("ncclCommGrow");
  const int last = c.nranks - 1;
  std::vector<int> members = c.All();
  members.pop_back();
  Growth made = {c.MakeComm("pair", members), nullptr};
  if (made.pair != nullptr) c.Warm(made.pair, s);
  const ncclUniqueId id =
      c.Id("grown", 0, [&](ncclUniqueId* out) { return get_id(made.pair, out); });
  c.Begin(s);
  if (c.rank == stays_away) c.SleepInUserCode(3600);
  c.Step("grow");
  const bool knows = c.rank == 0 || c.rank == last;
  NCCL_OK(grow(made.pair, c.nranks, knows ? &id : nullptr, c.rank == last ? last : -1, &made.all,
               nullptr));
  return made;
}

}  // namespace

JOB(grow_missing, 3) {
  // The rank that is to join never comes.
  cudaStream_t s = c.Stream();
  const Growth made = Grow(c, s, c.twin ? -1 : c.nranks - 1);
  c.AllReduce(made.all, s);
  c.Sync(s);
}

JOB(grow_member_missing, 3) {
  // One that is there does not grow: it knows the communicator by its parent, those who wait by the
  // id.
  cudaStream_t s = c.Stream();
  const Growth made = Grow(c, s, c.twin ? -1 : 1);
  c.AllReduce(made.all, s);
  c.Sync(s);
}

JOB(grow_holder_missing, 3) {
  // The one that knows both names: those who wait have one each, and it is no circle.
  cudaStream_t s = c.Stream();
  const Growth made = Grow(c, s, c.twin ? -1 : 0);
  c.AllReduce(made.all, s);
  c.Sync(s);
}

JOB(grow_inversion, 3) {
  // What has grown against its parent, in opposite order on one stream.
  cudaStream_t s = c.Stream();
  const Growth made = Grow(c, s, -1);
  c.Warm(made.all, s);
  const bool reverse = !c.twin && c.rank == 1;
  if (made.pair != nullptr && !reverse) c.AllReduce(made.pair, s);
  c.AllReduce(made.all, s);
  if (made.pair != nullptr && reverse) c.AllReduce(made.pair, s);
  c.Sync(s);
}

JOB(windows_opposite, 2) {
  // Two windows for symmetric memory, registered in another order by the last rank.
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, s);
  c.Warm(b, s);
  void* memory = nullptr;
  NCCL_OK(ncclMemAlloc(&memory, 1 << 20));
  c.Begin(s);
  const bool reverse = !c.twin && c.rank == c.nranks - 1;
  ncclWindow_t first = nullptr, second = nullptr;
  c.Step("register 1");
  NCCL_OK(
      ncclCommWindowRegister(reverse ? b : a, memory, 1 << 20, &first, NCCL_WIN_COLL_SYMMETRIC));
  c.Step("register 2");
  NCCL_OK(
      ncclCommWindowRegister(reverse ? a : b, memory, 1 << 20, &second, NCCL_WIN_COLL_SYMMETRIC));
  c.AllReduce(a, s);
  c.Sync(s);
  NCCL_OK(ncclCommWindowDeregister(reverse ? b : a, first));
  NCCL_OK(ncclCommWindowDeregister(reverse ? a : b, second));
}

JOB(destroy_opposite, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, s);
  c.Warm(b, s);
  c.Begin(s);
  const bool reverse = !c.twin && c.rank == c.nranks - 1;
  c.Step("destroy 1");
  NCCL_OK(ncclCommDestroy(reverse ? b : a));
  c.Step("destroy 2");
  NCCL_OK(ncclCommDestroy(reverse ? a : b));
}

namespace {

// As a job does that makes communicators for many groups and keeps them: more than the shim's table
// has room for.
std::vector<ncclComm_t> Children(ncclComm_t parent, int rank) {
  std::vector<ncclComm_t> children(1500);
  for (ncclComm_t& child : children) NCCL_OK(ncclCommSplit(parent, 0, rank, &child, nullptr));
  return children;
}

// The last rank issues the two in another order than the others, unless it is the twin.
void OppositeOrders(job::Context& c, ncclComm_t one, ncclComm_t other, cudaStream_t s) {
  c.Warm(one, s);
  c.Warm(other, s);
  c.Begin(s);
  const bool departs = !c.twin && c.rank == c.nranks - 1;
  c.AllReduce(departs ? other : one, s);
  c.Sync(s);
  c.AllReduce(departs ? one : other, s);
  c.Sync(s);
}

}  // namespace

JOB(inversion_many_communicators, 2) {
  cudaStream_t s = c.Stream();
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  Children(dp, c.rank);
  OppositeOrders(c, dp, tp, s);
}

// On communicators of which the shim's table knows nothing.
JOB(inversion_late_communicators, 2) {
  cudaStream_t s = c.Stream();
  const std::vector<ncclComm_t> children = Children(c.World(), c.rank);
  OppositeOrders(c, children[children.size() - 2], children.back(), s);
}

namespace {

// The last rank takes no part any more; the others have called an all-reduce with it, and go on
// without it.
void GoOnWithoutTheLast(job::Context& c, bool revokes) {
  constexpr size_t kFloats = 1024;
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  int last = c.nranks - 1;
  if (c.rank == last) {
    c.WaitForOthersToReach("called", 2 * c.nranks);
    c.WaitForOthersToReach("the end", 3 * c.nranks);
    return;
  }
  float* const in = c.Buffer(kFloats);
  float* const out = c.Buffer(kFloats);
  std::vector<float> values(kFloats, static_cast<float>(1 << c.rank));
  CUDA_OK(cudaMemcpy(in, values.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice));
  NCCL_OK(ncclAllReduce(in, out, kFloats, ncclFloat, ncclSum, world, s));
  // The preemptive runtime tells the other members of an abort, whose next call would be refused.
  c.WaitForOthersToReach("called", 2 * c.nranks);
  c.Step(revokes ? "revoke" : "shrink with abort");
  if (revokes) NCCL_OK(ncclCommRevoke(world, NCCL_REVOKE_DEFAULT));
  ncclComm_t rest = nullptr;
  NCCL_OK(ncclCommShrink(world, &last, 1, &rest, nullptr,
                         revokes ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT));
  c.Sync(s);
  NCCL_OK(ncclAllReduce(in, out, kFloats, ncclFloat, ncclSum, rest, s));
  c.Sync(s);
  CUDA_OK(cudaMemcpy(values.data(), out, kFloats * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float value : values) {
    if (value == static_cast<float>((1 << last) - 1)) continue;
    std::fprintf(stderr, "rank %d: the rest's sum is %g\n", c.rank, value);
    std::_Exit(7);
  }
  c.WaitForOthersToReach("the end", 3 * c.nranks);
  NCCL_OK(ncclCommDestroy(rest));
}

}  // namespace

JOB(shrunk_with_abort, 3) { GoOnWithoutTheLast(c, false); }
JOB(revoked_and_shrunk, 3) { GoOnWithoutTheLast(c, true); }
