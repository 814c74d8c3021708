// One process a rank, forked before CUDA is touched, with a watchdog in each: a rank that gets
// nowhere for a while says where all ranks are and ends.
#ifndef GORDIAN_RUNTIME_TESTING_RANKS_H_
#define GORDIAN_RUNTIME_TESTING_RANKS_H_

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>

namespace gordian::testing {

inline constexpr int kMostRanks = 8;

// Seconds, since some time.
inline double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Shared by parent and ranks.
struct Board {
  struct Rank {
    std::atomic<uint64_t> ticks;
    char where[160];
    std::atomic<int> done;
  };
  Rank ranks[kMostRanks];
  static constexpr int kMostSums = 8;
  std::atomic<uint64_t> sums[kMostSums];
  std::atomic<int> added[kMostSums];
  std::atomic<int> has_id;
  char id[128];  // NCCL's
  std::atomic<int> arrived;
};

class RankProcess {
 public:
  RankProcess(Board* board, int rank, int ranks, int patience_s)
      : board_(board), rank_(rank), ranks_(ranks), patience_s_(patience_s) {}
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Board* board() const { return board_; }

  // Where this rank is; resets the watchdog.
  __attribute__((format(printf, 2, 3))) void At(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(board_->ranks[rank_].where, sizeof board_->ranks[rank_].where, format, arguments);
    va_end(arguments);
    board_->ranks[rank_].ticks.fetch_add(1);
  }
  // The sum of what all ranks give; all must call it, up to Board::kMostSums times.
  uint64_t Sum(uint64_t own) {
    if (sums_ == Board::kMostSums) Fail("too many sums");
    const int i = sums_++;
    board_->sums[i] += own;
    ++board_->added[i];
    const timespec pause{0, 100000};
    while (board_->added[i] < ranks_) nanosleep(&pause, nullptr);
    return board_->sums[i];
  }
  void Watch() {
    std::thread([this] {
      uint64_t seen = 0;
      for (int quiet = 0; !board_->ranks[rank_].done; ++quiet) {
        const timespec second{1, 0};
        nanosleep(&second, nullptr);
        if (const uint64_t now = board_->ranks[rank_].ticks; now != seen) {
          seen = now;
          quiet = 0;
        }
        if (quiet < patience_s_) continue;
        std::string text = "HANG seen by rank " + std::to_string(rank_) + ":\n";
        for (int r = 0; r < ranks_; ++r) {
          text += "  rank " + std::to_string(r) + " at " + board_->ranks[r].where + "\n";
        }
        fputs(text.c_str(), stdout);
        fflush(stdout);
        _exit(3);
      }
    }).detach();
  }
  [[noreturn]] void Fail(const std::string& why) {
    printf("FAILED rank %d at %s: %s\n", rank_, board_->ranks[rank_].where, why.c_str());
    fflush(stdout);
    _exit(1);
  }

 private:
  Board* const board_;
  const int rank_, ranks_, patience_s_;
  int sums_ = 0;
};

// Runs body(rank) in a process a rank. 0 when all return 0; ranks listed in `may_die` (a mask) may
// end any way. Ranks that are left 5 s after a failure, or after `limit_s` in all, are killed.
inline int RunRanks(int ranks, int limit_s, int patience_s, uint32_t may_die,
                    const std::function<int(RankProcess&)>& body) {
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto* board = new (shared) Board();
  pid_t children[kMostRanks];
  fflush(stdout);
  for (int r = 0; r < ranks; ++r) {
    children[r] = fork();
    if (children[r] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      RankProcess process(board, r, ranks, patience_s);
      process.At("start");
      process.Watch();
      const int result = body(process);
      board->ranks[r].done = 1;
      fflush(stdout);
      _exit(result);
    }
    if (children[r] < 0) return 2;
  }
  int result = 0;
  int left = ranks;
  for (int tenths = 0; left > 0; ++tenths) {
    for (int r = 0; r < ranks; ++r) {
      int status = 0;
      if (children[r] <= 0 || waitpid(children[r], &status, WNOHANG) != children[r]) continue;
      children[r] = 0;
      --left;
      const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (well || (may_die >> r & 1) != 0) continue;
      if (result == 0) {
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        tenths = limit_s * 10 - 50;
      }
      printf("rank %d ended with status 0x%x\n", r, status);
    }
    if (tenths > limit_s * 10) {
      for (int r = 0; r < ranks; ++r) {
        if (children[r] <= 0) continue;
        printf("rank %d killed, at %s\n", r, board->ranks[r].where);
        kill(children[r], SIGKILL);
      }
      if (result == 0) result = 4;
      tenths = 0;
    }
    const timespec tenth{0, 100000000};
    nanosleep(&tenth, nullptr);
  }
  munmap(shared, sizeof(Board));
  return result;
}

}  // namespace gordian::testing

#endif  // GORDIAN_RUNTIME_TESTING_RANKS_H_
