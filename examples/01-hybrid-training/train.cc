// A small hybrid-parallel training loop: four processes, two pipeline stages of two tensor-parallel
// ranks each, and one parameter that all four share.
//
//   y = W2 (W1 x + b) + b,   loss = |y - t|^2 / (2 d)
//
//   stage 0: ranks 0, 1      each holds half of the columns of W1     tp communicator {0, 1}
//   stage 1: ranks 2, 3      each holds half of the columns of W2     tp communicator {2, 3}
//   activations and their gradients go between 0 and 2, 1 and 3      pp communicators
//   b is replicated; its gradient is summed over all ranks           dp communicator
//
// With --overlap-from STEP, rank 3 from that step on flushes the gradient of b as soon as its own
// share is known, "to overlap it with the backward pass": before the all-gather of its
// tensor-parallel group, where rank 2 flushes it after. Each order is fine; the two together
// deadlock.
//
// Every loss is compared with the same training done serially in one process.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 4;
constexpr int kD = 8;          // width of the model
constexpr int kHalf = kD / 2;  // columns of a tensor-parallel rank
constexpr double kRate = 0.4;

#define CHECK_CUDA(call)                                                              \
  do {                                                                                \
    cudaError_t e = (call);                                                           \
    if (e != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)
#define CHECK_NCCL(call)                                                              \
  do {                                                                                \
    ncclResult_t r = (call);                                                          \
    if (r != ncclSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, ncclGetErrorString(r)); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)

using Vector = std::array<double, kD>;
using Matrix = std::array<Vector, kD>;  // [row][column]

double Initial(int i, int j, int layer) { return 0.3 * std::sin(1.0 + 3 * i + 7 * j + 11 * layer); }
Vector Input(int step) {
  Vector x{};
  for (int i = 0; i < kD; ++i) x[i] = std::cos(0.7 * i + 0.1 * (step % 4));
  return x;
}
Vector Target(int step) {
  Vector t{};
  for (int i = 0; i < kD; ++i) t[i] = 0.5 * std::sin(0.9 * i + 0.1 * (step % 4));
  return t;
}

// The same model in one process: what the four must agree with.
class Serial {
 public:
  Serial() {
    for (int i = 0; i < kD; ++i) {
      for (int j = 0; j < kD; ++j) {
        w1_[i][j] = Initial(i, j, 1);
        w2_[i][j] = Initial(i, j, 2);
      }
    }
  }
  double Step(int step) {
    Vector x = Input(step), t = Target(step), h{}, y{}, dy{}, dh{};
    double loss = 0;
    for (int i = 0; i < kD; ++i) {
      h[i] = b_[i];
      for (int j = 0; j < kD; ++j) h[i] += w1_[i][j] * x[j];
    }
    for (int i = 0; i < kD; ++i) {
      y[i] = b_[i];
      for (int j = 0; j < kD; ++j) y[i] += w2_[i][j] * h[j];
      dy[i] = (y[i] - t[i]) / kD;
      loss += (y[i] - t[i]) * (y[i] - t[i]) / (2 * kD);
    }
    for (int j = 0; j < kD; ++j) {
      for (int i = 0; i < kD; ++i) dh[j] += w2_[i][j] * dy[i];
    }
    for (int i = 0; i < kD; ++i) {
      for (int j = 0; j < kD; ++j) {
        w2_[i][j] -= kRate * dy[i] * h[j];
        w1_[i][j] -= kRate * dh[i] * x[j];
      }
      b_[i] -= kRate * (dy[i] + dh[i]);
    }
    return loss;
  }

 private:
  Matrix w1_{}, w2_{};
  Vector b_{};
};

// A vector that lives on the device.
class DeviceVector {
 public:
  explicit DeviceVector(int n) : n_(n) { CHECK_CUDA(cudaMalloc(&data_, n * sizeof(double))); }
  double* get() const { return static_cast<double*>(data_); }
  void Put(const double* from, cudaStream_t s) {
    CHECK_CUDA(cudaMemcpyAsync(data_, from, n_ * sizeof(double), cudaMemcpyHostToDevice, s));
  }
  void Take(double* to, cudaStream_t s) {
    CHECK_CUDA(cudaMemcpyAsync(to, data_, n_ * sizeof(double), cudaMemcpyDeviceToHost, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
  }

 private:
  int n_;
  void* data_ = nullptr;
};

struct Meeting {  // shared memory in which the ranks exchange unique ids
  std::atomic<int> ready[8];
  ncclUniqueId ids[8];
};

class Trainer {
 public:
  // From step `overlap_from` on (1 is the first; 0: never) the last rank overlaps its flush.
  Trainer(int rank, int overlap_from, Meeting* meeting)
      : rank_(rank),
        stage_(rank / 2),
        shard_(rank % 2),
        overlap_from_(overlap_from),
        meeting_(meeting) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    dp_ = Communicator("dp", 0, {0, 1, 2, 3});
    tp_ = stage_ == 0 ? Communicator("tp0", 1, {0, 1}) : Communicator("tp1", 2, {2, 3});
    pp_ = shard_ == 0 ? Communicator("pp0", 3, {0, 2}) : Communicator("pp1", 4, {1, 3});
    for (int i = 0; i < kD; ++i) {
      for (int j = 0; j < kHalf; ++j) w_[i][j] = Initial(i, shard_ * kHalf + j, stage_ + 1);
    }
  }

  // Returns the loss; only stage 1 knows it.
  double Step(int step) {
    overlap_ = rank_ == kRanks - 1 && overlap_from_ > 0 && step + 1 >= overlap_from_;
    Vector in = stage_ == 0 ? Input(step) : Receive();
    Vector out = Forward(in);
    Vector gradient{};  // of what this stage put out
    double loss = 0;
    if (stage_ == 0) {
      Send(out);
      gradient = Receive();
      BeginFlush(gradient);
    } else {
      Vector target = Target(step);
      for (int i = 0; i < kD; ++i) {
        gradient[i] = (out[i] - target[i]) / kD;
        loss += (out[i] - target[i]) * (out[i] - target[i]) / (2 * kD);
      }
      BackwardToPreviousStage(gradient);
    }
    Vector shared = EndFlush();
    for (int i = 0; i < kD; ++i) {
      for (int j = 0; j < kHalf; ++j) w_[i][j] -= kRate * gradient[i] * in[shard_ * kHalf + j];
      b_[i] -= kRate * shared[i];
    }
    return loss;
  }

  void Finish() {
    for (ncclComm_t comm : {dp_, tp_, pp_}) CHECK_NCCL(ncclCommDestroy(comm));
  }

 private:
  ncclComm_t Communicator(const char* name, int slot, const std::vector<int>& members) {
    int mine = 0;
    while (members[mine] != rank_) ++mine;
    if (mine == 0) {
      CHECK_NCCL(ncclGetUniqueId(&meeting_->ids[slot]));
      meeting_->ready[slot] = 1;
    }
    while (meeting_->ready[slot] == 0) usleep(100);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name;
    ncclComm_t comm = nullptr;
    CHECK_NCCL(ncclCommInitRankConfig(&comm, static_cast<int>(members.size()), meeting_->ids[slot],
                                      mine, &config));
    return comm;
  }

  // Every rank multiplies its columns; the tensor-parallel group sums.
  Vector Forward(const Vector& in) {
    Vector partial{};
    for (int i = 0; i < kD; ++i) {
      for (int j = 0; j < kHalf; ++j) partial[i] += w_[i][j] * in[shard_ * kHalf + j];
    }
    activation_.Put(partial.data(), stream_);
    CHECK_NCCL(
        ncclAllReduce(activation_.get(), activation_.get(), kD, ncclDouble, ncclSum, tp_, stream_));
    Vector out{};
    activation_.Take(out.data(), stream_);
    for (int i = 0; i < kD; ++i) out[i] += b_[i];
    return out;
  }

  void Send(const Vector& v) {
    outgoing_.Put(v.data(), stream_);
    CHECK_NCCL(ncclSend(outgoing_.get(), kD, ncclDouble, 1 - stage_, pp_, stream_));
  }

  Vector Receive() {
    CHECK_NCCL(ncclRecv(incoming_.get(), kD, ncclDouble, 1 - stage_, pp_, stream_));
    Vector v{};
    incoming_.Take(v.data(), stream_);
    return v;
  }

  // Gathers the gradient of this stage's input over the tensor-parallel group and passes it on.
  void BackwardToPreviousStage(const Vector& gradient) {
    std::array<double, kHalf> mine{};
    for (int j = 0; j < kHalf; ++j) {
      for (int i = 0; i < kD; ++i) mine[j] += w_[i][j] * gradient[i];
    }
    if (overlap_) BeginFlush(gradient);
    part_.Put(mine.data(), stream_);
    CHECK_NCCL(ncclAllGather(part_.get(), outgoing_.get(), kHalf, ncclDouble, tp_, stream_));
    CHECK_NCCL(ncclSend(outgoing_.get(), kD, ncclDouble, 1 - stage_, pp_, stream_));
    if (!overlap_) BeginFlush(gradient);
  }

  // The gradient of b: each rank of a stage contributes its half, all ranks sum.
  void BeginFlush(const Vector& gradient) {
    Vector share{};
    for (int j = 0; j < kHalf; ++j) share[shard_ * kHalf + j] = gradient[shard_ * kHalf + j];
    bucket_.Put(share.data(), stream_);
    CHECK_NCCL(ncclAllReduce(bucket_.get(), bucket_.get(), kD, ncclDouble, ncclSum, dp_, stream_));
  }

  Vector EndFlush() {
    Vector sum{};
    bucket_.Take(sum.data(), stream_);
    return sum;
  }

  const int rank_, stage_, shard_;
  const int overlap_from_;
  bool overlap_ = false;
  Meeting* meeting_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t dp_ = nullptr, tp_ = nullptr, pp_ = nullptr;
  std::array<std::array<double, kHalf>, kD> w_{};
  Vector b_{};
  DeviceVector activation_{kD}, incoming_{kD}, outgoing_{kD}, part_{kHalf}, bucket_{kD};
};

int Train(int rank, int steps, int overlap_from, Meeting* meeting) {
  CHECK_CUDA(cudaSetDevice(rank));  // before anything is allocated
  Serial serial;
  Trainer trainer(rank, overlap_from, meeting);
  double worst = 0;
  for (int step = 0; step < steps; ++step) {
    double loss = trainer.Step(step);
    double reference = serial.Step(step);
    if (rank / 2 == 1) worst = std::fmax(worst, std::fabs(loss - reference));
    if (rank == 2) {
      std::printf("step %d  loss %.9f  (serially %.9f)\n", step + 1, loss, reference);
      std::fflush(stdout);
    }
  }
  trainer.Finish();
  if (worst > 1e-12) {
    std::fprintf(stderr, "rank %d: differs from serial training by %g\n", rank, worst);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 6;
  int overlap_from = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
      steps = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--overlap-from") == 0 && i + 1 < argc) {
      overlap_from = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--steps N] [--overlap-from STEP]\n", argv[0]);
      return 2;
    }
  }
  auto* meeting = static_cast<Meeting*>(
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (meeting == MAP_FAILED) return 1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    pid_t pid = fork();
    if (pid == 0) std::exit(Train(rank, steps, overlap_from, meeting));
    children.push_back(pid);
  }
  int result = 0;
  for (pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) result = 1;
  }
  return result;
}
