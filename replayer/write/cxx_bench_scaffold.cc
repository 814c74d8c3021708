#include "replayer/write/cxx_bench_tables.h"

namespace gordian::replayer {

const std::string_view kCxxBenchBeforeRanks = R"text(
// What the ranks report at their end.
struct Results {
  struct {
    int calls;  // in one repetition
    double median_us, least_us;
  } rows[kRanks][kRows + 1];
  double repetition_us[kRanks];
};
Results* results;
int repetitions = 20;  // --repeat; one more comes before them and is not counted

double Microseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// ---- Results: each kind of operation once, with values that every type holds exactly.

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
    default: return 1;
  }
}

// Of floating-point types of 8 and 16 bits: bits of the exponent and of the mantissa.
bool IsSmallFloat(ncclDataType_t type, int* exponent, int* mantissa) {
  switch (type) {
    case ncclFloat16: *exponent = 5, *mantissa = 10; return true;
    case ncclBfloat16: *exponent = 8, *mantissa = 7; return true;
    case ncclFloat8e4m3: *exponent = 4, *mantissa = 3; return true;
    case ncclFloat8e5m2: *exponent = 5, *mantissa = 2; return true;
    default: return false;
  }
}

// `value` is a whole number from 1 to 8.
void Put(ncclDataType_t type, void* at, int value) {
  int exponent = 0, mantissa = 0;
  if (IsSmallFloat(type, &exponent, &mantissa)) {
    int power = 0;
    while (value >> (power + 1) != 0) ++power;
    const unsigned fraction = static_cast<unsigned>(value - (1 << power)) << mantissa >> power;
    const unsigned bits = static_cast<unsigned>(power + (1 << (exponent - 1)) - 1) << mantissa | fraction;
    std::memcpy(at, &bits, SizeOf(type));  // little-endian
  } else if (type == ncclFloat32) {
    const float number = static_cast<float>(value);
    std::memcpy(at, &number, sizeof number);
  } else if (type == ncclFloat64) {
    const double number = value;
    std::memcpy(at, &number, sizeof number);
  } else {
    const long long number = value;
    std::memcpy(at, &number, SizeOf(type));
  }
}

double Get(ncclDataType_t type, const void* at) {
  int exponent = 0, mantissa = 0;
  if (IsSmallFloat(type, &exponent, &mantissa)) {
    unsigned bits = 0;
    std::memcpy(&bits, at, SizeOf(type));
    const int power = static_cast<int>(bits >> mantissa & ((1u << exponent) - 1)) - ((1 << (exponent - 1)) - 1);
    double number = 1 + static_cast<double>(bits & ((1u << mantissa) - 1)) / (1 << mantissa);
    for (int i = 0; i < power; ++i) number *= 2;
    for (int i = 0; i > power; --i) number /= 2;
    return number;
  }
  if (type == ncclFloat32) {
    float number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  if (type == ncclFloat64) {
    double number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  long long number = 0;
  std::memcpy(&number, at, SizeOf(type));
  return static_cast<double>(number);
}

// A sum of whole numbers is exact up to the width of the mantissa; beyond it each addition may round.
double Tolerance(ncclDataType_t type, int members) {
  int exponent = 0, mantissa = 0;
  return IsSmallFloat(type, &exponent, &mantissa) ? static_cast<double>(members) / (2 << mantissa) : 1e-6;
}

bool Reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter; }

int Given(const Check& check, int member) { return Reduces(check.kind) ? 1 + member % 2 : 1 + member % 8; }

double Reduced(const Check& check, int members) {
  double sum = 0, product = 1, least = Given(check, 0), most = least;
  for (int i = 0; i < members; ++i) {
    const double value = Given(check, i);
    sum += value;
    product *= value;
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  return check.op == ncclSum    ? sum
         : check.op == ncclProd ? product
         : check.op == ncclMax  ? most
         : check.op == ncclMin  ? least
                                : sum / members;
}

ncclResult_t Call(const Check& check, ncclComm_t comm, int me, cudaStream_t stream) {
  switch (check.kind) {
    case Kind::kAllReduce: return ncclAllReduce(in, out, check.count, check.type, check.op, comm, stream);
    case Kind::kAllGather: return ncclAllGather(in, out, check.count, check.type, comm, stream);
    case Kind::kReduceScatter: return ncclReduceScatter(in, out, check.count, check.type, check.op, comm, stream);
    case Kind::kBroadcast: return ncclBroadcast(in, out, check.count, check.type, check.root, comm, stream);
    case Kind::kReduce: return ncclReduce(in, out, check.count, check.type, check.op, check.root, comm, stream);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    case Kind::kAllToAll: return ncclAlltoAll(in, out, check.count, check.type, comm, stream);
    case Kind::kGather: return ncclGather(in, out, check.count, check.type, check.root, comm, stream);
    case Kind::kScatter: return ncclScatter(in, out, check.count, check.type, check.root, comm, stream);
#endif
    default:
      return me == check.root ? ncclSend(in, check.count, check.type, check.to, comm, stream)
                              : ncclRecv(out, check.count, check.type, check.root, comm, stream);
  }
}

// All ranks check in the same order, one after the other, so that nothing can hang here.
void CheckAll(Thread& me, std::initializer_list<ncclComm_t> comms) {
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<char> host;
  for (int i = 0; i < kChecks; ++i) {
    const Check& check = kCheckList[i];
    const ncclComm_t comm = comms.begin()[check.comm];
    if (comm == nullptr) continue;
    int member = 0, members = 0;
    NCCL(ncclCommUserRank(comm, &member));
    NCCL(ncclCommCount(comm, &members));
    if (check.kind == Kind::kTransfer && member != check.root && member != check.to) continue;
    const size_t width = SizeOf(check.type), n = static_cast<size_t>(members);
    const bool gives_all = check.kind == Kind::kReduceScatter || check.kind == Kind::kAllToAll || check.kind == Kind::kScatter;
    host.resize(check.count * width * (gives_all ? n : 1));
    for (size_t at = 0; at < host.size(); at += width) Put(check.type, &host[at], Given(check, member));
    CUDA(cudaMemcpyAsync(in, host.data(), host.size(), cudaMemcpyHostToDevice, stream));
    NCCL(Call(check, comm, member, stream));
    const bool gets_all = check.kind == Kind::kAllGather || check.kind == Kind::kAllToAll || check.kind == Kind::kGather;
    host.assign(check.count * width * (gets_all ? n : 1), 0);
    CUDA(cudaMemcpyAsync(host.data(), out, host.size(), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    const bool at_root = check.kind == Kind::kReduce || check.kind == Kind::kGather;
    const bool gets = check.kind == Kind::kTransfer ? member == check.to : !at_root || member == check.root;
    for (size_t at = 0; gets && at < host.size(); at += width) {
      const int block = static_cast<int>(at / width / check.count);
      const double wanted = Reduces(check.kind) ? Reduced(check, members) : Given(check, gets_all ? block : check.root);
      const double got = Get(check.type, &host[at]), off = got > wanted ? got - wanted : wanted - got;
      if (wanted < 100 && off > wanted * Tolerance(check.type, members)) {
        std::fprintf(stderr, "replay: rank %d: check %d: element %zu is %g, not %g\n", me.rank, i, at / width, got, wanted);
        Fail("a result is wrong", "kCheckList says of which operation", __LINE__);
      }
    }
  }
  CUDA(cudaStreamDestroy(stream));
}

// ---- Times

struct Timed {
  cudaEvent_t start, stop;
};
std::vector<Timed> timed;                // of this rank, in the order of its calls
std::vector<std::vector<double>> times;  // by row
double began_us;
int done = -1;  // repetitions; -1: not begun

void Start(Thread& me, size_t call, cudaStream_t stream) {
  while (timed.size() <= call) {
    timed.emplace_back();
    CUDA(cudaEventCreate(&timed.back().start));
    CUDA(cudaEventCreate(&timed.back().stop));
  }
  CUDA(cudaEventRecord(timed[call].start, stream));
}
void Stop(Thread& me, size_t call, cudaStream_t stream) { CUDA(cudaEventRecord(timed[call].stop, stream)); }

// Returns whether there is another repetition. The first one warms up.
bool Repeat(Thread& me) {
  CUDA(cudaDeviceSynchronize());
  times.resize(kRows);
  for (size_t call = 0; call < timed.size() && done > 0; ++call) {
    float milliseconds = 0;
    CUDA(cudaEventElapsedTime(&milliseconds, timed[call].start, timed[call].stop));
    times[static_cast<size_t>(kTimed[me.rank][call])].push_back(1e3 * milliseconds);
  }
  if (++done == 1) began_us = Microseconds();
  if (done <= repetitions) return true;
  results->repetition_us[me.rank] = (Microseconds() - began_us) / repetitions;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<double>& all = times[row];
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    results->rows[me.rank][row] = {static_cast<int>(all.size()) / repetitions, all[all.size() / 2], all[0]};
  }
  return false;
}
)text";

const std::string_view kCxxBenchMain = R"text(
void PrintResults() {
  std::printf("%d checks of results passed\n%-44s %12s %6s %10s %10s %10s %8s\n", kChecks, "what", "bytes", "calls", "least us", "median us",
              "slowest", "GB/s");
  for (int row = 0; row < kRows; ++row) {
    std::vector<double> medians;
    double least = 0;
    int calls = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& own = results->rows[rank][row];
      if (own.calls == 0) continue;
      calls = own.calls;
      least = medians.empty() || own.least_us < least ? own.least_us : least;
      medians.push_back(own.median_us);
    }
    if (medians.empty()) continue;
    std::sort(medians.begin(), medians.end());
    const double median = medians[medians.size() / 2];
    std::printf("%-44s %12zu %6d %10.1f %10.1f %10.1f %8.2f\n", kRowList[row].what, kRowList[row].bytes, calls, least, median, medians.back(),
                median > 0 ? static_cast<double>(kRowList[row].bytes) / median / 1e3 : 0);
  }
  double slowest = 0;
  for (const double us : results->repetition_us) slowest = us > slowest ? us : slowest;
  std::printf("one repetition: %.1f us (%d of them)\n", slowest, repetitions);
}

int main(int argc, char** argv) {
  double patience = 60;
  free_running = true;  // there are no marks
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--repeat") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      repetitions = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--patience") == 0 && i + 1 < argc && std::atof(argv[i + 1]) > 0) {
      patience = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--repeat COUNT] [--patience SECONDS]\n", argv[0]);
      return 2;
    }
  }
  void* const memory = mmap(nullptr, sizeof(Results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 3;
  }
  results = static_cast<Results*>(memory);
  const int result = RunRanks(patience);
  if (result == 0) PrintResults();
  return result;
}
)text";

}  // namespace gordian::replayer
