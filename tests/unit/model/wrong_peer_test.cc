// Whose peer is wrong: said of a rank only where what was exchanged before tells it from the
// others.
#include <gtest/gtest.h>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

// A ring of three, sent around `rounds` times, in the last of which rank 2 receives from rank
// `from`.
std::vector<Program> Ring(int rounds, int from) {
  std::vector<Program> programs(3, Program{Init(0)});
  for (int i = 0; i < rounds; ++i) {
    programs[0] = programs[0] + Program{Send(0, 1), Recv(0, 2), StreamSync()};
    programs[1] = programs[1] + Program{Recv(0, 0), Send(0, 2), StreamSync()};
    programs[2] =
        programs[2] + Program{Recv(0, i + 1 == rounds ? from : 1), Send(0, 0), StreamSync()};
  }
  return programs;
}

TEST(WrongPeer, OneThatWasNeverThePeerBefore) {
  ExpectHang(Comms(1, 3), Ring(2, 0), Deadlock({2}, "point-to-point-order-cycle"), 0.7);
}

TEST(WrongPeer, OfAFirstExchangeNobodyKnows) {
  ExpectHang(Comms(1, 3), Ring(1, 0), Deadlock({0, 2}, "point-to-point-order-cycle"), 0.7);
}

TEST(WrongPeer, TheRightOneEnds) { ExpectHealthy(Comms(1, 3), Ring(2, 1)); }

// Both have been peers before: it is as likely that rank 0 leaves a send out.
TEST(WrongPeer, OneThatWasThePeerBefore) {
  std::vector<Program> programs = Ring(2, 0);
  const Program before = {Send(0, 2), StreamSync()}, after = {Recv(0, 0), StreamSync()};
  programs[0].insert(programs[0].begin() + 1, before.begin(), before.end());
  programs[2].insert(programs[2].begin() + 1, after.begin(), after.end());
  ExpectHang(Comms(1, 3), programs, Deadlock({0, 2}, "point-to-point-order-cycle"), 0.7);
}

// Rank 1, which waits for rank 2 to send, waits for one that has ended.
std::vector<Program> BesideOneThatEnds(int rounds, int from) {
  Program source = {Init(0)}, target = {Init(0)};
  for (int i = 0; i < rounds; ++i) {
    source = source + Program{Send(0, 1), StreamSync()};
    target = target + Program{Recv(0, i + 1 == rounds ? from : 0), StreamSync()};
  }
  return {source + Program{Recv(0, 1), StreamSync()},
          target + Program{Send(0, 0), StreamSync()},
          {Init(0), Exit(0)}};
}

TEST(WrongPeer, OneThatHasEnded) {
  ExpectHang(Comms(1, 3), BesideOneThatEnds(2, 2),
             {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"}, 3);
}

TEST(WrongPeer, OneThatHasEndedInAFirstExchange) {
  ExpectHang(Comms(1, 3), BesideOneThatEnds(1, 2),
             {VerdictKind::kRankExited, Confidence::kConfirmed, {1, 2}, "rank-exited"}, 3);
}

}  // namespace
}  // namespace gordian::model
