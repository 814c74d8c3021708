// Collectives between nodes against Open MPI's in the same run, turn by turn.
//
//   mpirun -np N --mca pml ob1 --mca btl tcp,self gordian-runtime-nodes-bench OPTION...
//   [--per-node M] [--min BYTES] [--max BYTES] [--turns N]
//
// Ratio first: the time of a call here over that of MPI's; below 1 the runtime is faster. A turn is
// as many calls of one kind and size as take some milliseconds, by one side, then by the other. Of
// each turn the slowest rank's time counts, and of all turns the median. BYTES are those of the
// larger buffer of a rank. Every M ranks are a node: they share memory here; the caller sets by MPI's
// own options what MPI uses.
#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "gordian/runtime.h"

namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Check(grtResult_t result, grtComm_t comm, const char* what) {
  if (result == grtSuccess) return;
  char text[256] = "";
  grtCommErrorText(comm, text, sizeof text);
  std::fprintf(stderr, "%s: %s (%s)\n", what, grtGetErrorString(result), text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// The slowest rank's time of `calls` calls.
double Turn(const std::function<void()>& call, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = Seconds();
  for (int i = 0; i < calls; ++i) call();
  const double own = Seconds() - begin;
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest / calls;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  long per_node = 1, min = 1 << 10, max = 4 << 20, turns = 9;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    long* const value = name == "--per-node" ? &per_node
                        : name == "--min"    ? &min
                        : name == "--max"    ? &max
                        : name == "--turns"  ? &turns
                                             : nullptr;
    if (value == nullptr || (*value = std::atol(argv[i + 1])) <= 0) {
      if (rank == 0) std::fprintf(stderr, "what is %s %s?\n", argv[i], argv[i + 1]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }
  setenv("GRT_NODE", ("bench" + std::to_string(rank / per_node)).c_str(), 1);
  grtUniqueId id;
  if (rank == 0) Check(grtGetUniqueId(&id), nullptr, "making an id");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  grtComm_t comm = nullptr;
  Check(grtCommInitRankConfig(&comm, ranks, id, rank, nullptr), nullptr, "making a communicator");
  cudaStream_t stream = nullptr;
  Check(grtStreamCreate(&stream), comm, "making a stream");

  std::vector<float> in(static_cast<size_t>(max) / 4), out(in.size());
  std::iota(in.begin(), in.end(), static_cast<float>(rank));
  const auto n = static_cast<size_t>(ranks);
  size_t count = 0;
  const auto done = [&](grtResult_t called) {
    Check(called, comm, "a call");
    Check(grtStreamSynchronize(stream, UINT64_MAX), comm, "waiting");
  };
  struct Row {
    const char* name;
    std::function<void()> own, mpi;
  };
  const auto part = [&] { return count / n; };
  const auto mpi_part = [&] { return static_cast<int>(count / n); };
  const std::vector<Row> rows = {
      {"all-gather",
       [&] { done(grtAllGather(in.data(), out.data(), part(), grtFloat32, comm, stream)); },
       [&] {
         MPI_Allgather(in.data(), mpi_part(), MPI_FLOAT, out.data(), mpi_part(), MPI_FLOAT,
                       MPI_COMM_WORLD);
       }},
      {"reduce-scatter",
       [&] {
         done(grtReduceScatter(in.data(), out.data(), part(), grtFloat32, grtSum, comm, stream));
       },
       [&] {
         MPI_Reduce_scatter_block(in.data(), out.data(), mpi_part(), MPI_FLOAT, MPI_SUM,
                                  MPI_COMM_WORLD);
       }},
      {"all-reduce",
       [&] { done(grtAllReduce(in.data(), out.data(), count, grtFloat32, grtSum, comm, stream)); },
       [&] {
         MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       }},
      {"all-to-all",
       [&] { done(grtAllToAll(in.data(), out.data(), part(), grtFloat32, comm, stream)); },
       [&] {
         MPI_Alltoall(in.data(), mpi_part(), MPI_FLOAT, out.data(), mpi_part(), MPI_FLOAT,
                      MPI_COMM_WORLD);
       }},
  };
  if (rank == 0) {
    std::printf("%d ranks, %ld a node; time of a call\n", ranks, per_node);
    std::printf("%7s %10s %10s  %-14s %10s\n", "ratio", "gordian us", "MPI us", "", "bytes");
  }
  for (const Row& row : rows) {
    for (long bytes = min; bytes <= max; bytes *= 4) {
      count = static_cast<size_t>(bytes) / 4 / n * n;
      const double once = std::max({Turn(row.own, 3), Turn(row.mpi, 3), 1e-6});
      const int calls = static_cast<int>(std::clamp(0.02 / once, 1.0, 1000.0));
      std::vector<double> own, mpi;
      for (long t = 0; t < turns; ++t) {
        own.push_back(Turn(row.own, calls));
        mpi.push_back(Turn(row.mpi, calls));
      }
      const double a = Median(own) * 1e6, b = Median(mpi) * 1e6;
      if (rank != 0) continue;
      std::printf("%7.2f %10.1f %10.1f  %-14s %10ld\n", a / b, a, b, row.name, bytes);
      std::fflush(stdout);
    }
  }
  Check(grtStreamDestroy(stream), comm, "ending a stream");
  Check(grtCommDestroy(comm, UINT64_MAX), comm, "ending a communicator");
  MPI_Finalize();
  return 0;
}
