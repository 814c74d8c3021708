// How long `gordian watch` takes to answer a key, and to show a new status, of a job with 16,384
// ranks that are each in 32 communicators; beside the plain redraw of the same status, which makes
// one screen of everything. Two jobs: ranks that fold into a few rows, and ranks of which each has a
// row of its own.
//
//   bench_watch [RANKS]        default 16384
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/status/status_view.h"
#include "cli/watch/watch_data.h"
#include "cli/watch/watch_screen.h"

namespace gordian::bench {
namespace {

using nlohmann::ordered_json;

constexpr int kCommunicatorsOfRank = 32;

ordered_json Communicator(int number, const std::vector<int>& ranks) {
  const bool late = std::find(ranks.begin(), ranks.end(), 5) != ranks.end();
  return {{"name", "comm" + std::to_string(number)},
          {"uid", std::to_string(number)},
          {"size", ranks.size()},
          {"ranks", ranks},
          {"ranks_seen", ranks.size()},
          {"made_by_rank", 0},
          {"site", "train.py:20 setup()"},
          {"destroyed", false},
          {"sequence_min", late ? 1 : 2},
          {"sequence_max", 2},
          {"behind", late ? std::vector<int>{5} : std::vector<int>{}},
          {"behind_by", late ? std::vector<int>{1} : std::vector<int>{}}};
}

// With `alike`, communicators of all ranks; else small ones, and each rank at a line of its own.
ordered_json MakeStatus(int ranks, bool alike) {
  ordered_json status = {
      {"verdict", "rank_not_joined"},
      {"check", "rank-not-joined"},
      {"confidence", "suspected"},
      {"summary", "Rank 5 is late"},
      {"detected_after_s", 5.0},
      {"culprit_ranks", {5}},
      {"since_progress_s", 75.5},
      {"evidence", {{"ranks_seen", ranks}, {"ranks_expected", ranks}, {"nccl_calls", 1}}}};
  for (int rank = 0; rank < ranks; ++rank) {
    status["ranks"].push_back(
        {{"rank", rank},
         {"pid", 1000 + rank},
         {"incarnation", 1},
         {"node", "node" + std::to_string(rank / 8)},
         {"state", rank == 5 ? "running" : "in_call"},
         {"call", rank == 5 ? "" : "ncclAllReduce"},
         {"operation", "AllReduce #2 on comm0"},
         {"ending", ""},
         {"since_s", 12.5},
         {"site", "train.py:" + std::to_string(alike ? 88 : rank) + " step()"},
         {"nccl_calls", 1000}});
  }
  const int size = alike ? ranks : 8;
  for (int number = 0, first = 0; number < ranks / size * kCommunicatorsOfRank; ++number) {
    std::vector<int> members;
    for (int i = 0; i < size; ++i) members.push_back((first + i) % ranks);
    first = (first + size) % ranks;
    status["communicators"].push_back(Communicator(number, members));
  }
  return status;
}

template <typename Function>
double Milliseconds(int times, Function function) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

void Measure(const char* what, int ranks, bool alike) {
  cli::SeenStatus seen;
  seen.running = true;
  seen.status = MakeStatus(ranks, alike);
  const std::string text = seen.status.dump();
  const double parse = Milliseconds(3, [&] { seen.status = ordered_json::parse(text); });
  const double plain = Milliseconds(
      5, [&] { (void)cli::StatusScreen(seen.status, {.width = 120, .title = "session s"}); });
  std::shared_ptr<const cli::WatchData> data;
  const double make = Milliseconds(5, [&] { data = cli::MakeWatchData(seen, "session s", "s"); });
  cli::WatchScreen screen;
  screen.SetSize(50, 120);
  const double show = Milliseconds(5, [&] {
    screen.SetData(data);
    (void)screen.Frame();
  });
  const auto press = [&](cli::Key::Kind kind, const std::string& key) {
    return Milliseconds(1, [&] {
      screen.Press({kind, key});
      (void)screen.Frame();
    });
  };
  (void)press(cli::Key::kText, "3");
  (void)press(cli::Key::kDown, "");
  const double open = press(cli::Key::kEnter, "");
  double move = 0;
  for (int i = 0; i < 100; ++i) move = std::max(move, press(cli::Key::kDown, ""));
  const double last = press(cli::Key::kEnd, "");
  (void)press(cli::Key::kText, "/");
  const double filter = press(cli::Key::kText, "7");
  std::printf("%s, %d ranks x %d communicators, %zu in all, %.1f MB of JSON\n", what, ranks,
              kCommunicatorsOfRank, data->communicators.size(),
              static_cast<double>(text.size()) / 1e6);
  std::printf("  a key takes %.3f of a plain redraw: %.2f ms (the worst of 100), %.2f ms\n",
              move / plain, move, plain);
  std::printf(
      "  a new status: %.1f ms until it is shown; before, beside the keys: %.1f ms to parse "
      "it, %.1f ms to read it\n",
      show, parse, make);
  std::printf("  to open a row %.1f ms, to go to the end %.1f ms, a letter of the filter %.1f ms\n",
              open, last, filter);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::max(atoi(argv[1]), 64) : 16384;
  gordian::bench::Measure("ranks that fold", ranks, true);
  gordian::bench::Measure("a row for each rank", ranks, false);
}
