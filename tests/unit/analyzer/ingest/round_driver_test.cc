#include "analyzer/ingest/round_driver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "common/log.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A node that keeps the requests it got.
class Node {
 public:
  RoundDriver::Asker Request() {
    return [this](const v1::RoundRequest& request) {
      std::lock_guard lock(mutex_);
      requests_.push_back({request.round(), Clock::now()});
      changed_.notify_all();
    };
  }

  struct Asked {
    uint64_t round;
    Clock::time_point at;
  };
  // The next request, or round 0 after `patience`.
  Asked Next(milliseconds patience = milliseconds(5000)) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [this] { return !requests_.empty(); })) return {0, {}};
    const Asked asked = requests_.front();
    requests_.pop_front();
    return asked;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> requests_;
};

v1::Round AnswerTo(uint64_t round, uint64_t time_ns) {
  v1::Round answer;
  answer.set_round(round);
  answer.set_begin_ns(time_ns);
  answer.set_end_ns(time_ns + 1);
  return answer;
}

class RoundDriverTest : public ::testing::Test {
 protected:
  RoundDriverTest() { SilenceLog(); }

  void Feed(testing::RecordedJob* job) {
    for (const v1::Event& event : job->Take()) analysis_.OnEvent(event);
  }

  // Returns the second round, which waits for both: number 1 joins before it can begin without it.
  static uint64_t JoinBoth(RoundDriver* driver, Node* first, Node* second) {
    driver->Join(2, second->Request());
    const uint64_t round = second->Next().round;
    driver->Join(1, first->Request());
    driver->Answer(2, AnswerTo(round, 10));
    const uint64_t next = first->Next().round;
    EXPECT_EQ(second->Next().round, next);
    return next;
  }

  Analysis analysis_{AnalysisOptions{}};
  RoundPace pace_{.busy = milliseconds(100),
                  .confirming = milliseconds(20),
                  .idle = milliseconds(400),
                  .round_timeout = milliseconds(5000)};
};

TEST_F(RoundDriverTest, NoRoundBeforeTheLastWasAnswered) {
  Node node;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, node.Request());
  const Node::Asked first = node.Next();
  EXPECT_EQ(first.round, 1u);
  EXPECT_EQ(node.Next(milliseconds(250)).round, 0u);  // waits for the answer
  const Clock::time_point answered = Clock::now();
  driver.Answer(1, AnswerTo(1, 100));
  EXPECT_EQ(driver.rounds(), 1u);  // Answer returned: the analysis has it
  const Node::Asked second = node.Next();
  EXPECT_EQ(second.round, 2u);
  EXPECT_GE(second.at - answered, pace_.confirming);
  driver.Stop();
}

TEST_F(RoundDriverTest, IdleJobsAreAskedSeldomAndBusyOnesOften) {
  pace_.idle = milliseconds(1500);
  Node node;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, node.Request());
  Node::Asked last = node.Next();
  driver.Answer(1, AnswerTo(last.round, 100));
  Node::Asked next = node.Next();
  EXPECT_GE(next.at - last.at, pace_.idle);
  driver.Answer(1, AnswerTo(next.round, 200));

  // Something begins: the pace changes at once, not after the long pause.
  testing::RecordedJob job(2);
  job.MakeCommunicator(1, {0, 1}, "A");
  job.MakeStream(0);
  job.Collective(0, "ncclAllReduce", 1, 1, 8);
  Feed(&job);
  ASSERT_TRUE(analysis_.HasUnfinished());
  driver.Delivered(1);
  last = next;
  next = node.Next();
  EXPECT_LT(next.at - last.at, pace_.idle);
  driver.Stop();
}

TEST_F(RoundDriverTest, ARoundThatWantsAnotherGetsItSoon) {
  testing::RecordedJob job = testing::TwoRanks(true);
  Feed(&job);
  pace_.busy = milliseconds(4000);
  Node node;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, node.Request());
  // First use and the like need some time of the job's clock to pass: asked until it is certain.
  const Clock::time_point begin = Clock::now();
  uint64_t rounds = 0;
  while (analysis_.Current().main.confidence != model::Confidence::kConfirmed ||
         analysis_.Current().main.verdict != model::VerdictKind::kDeadlock) {
    const Node::Asked asked = node.Next();
    ASSERT_NE(asked.round, 0u);
    ASSERT_LT(++rounds, 10u);
    v1::Event event = job.RoundEvent(asked.round);
    driver.Answer(1, std::move(*event.mutable_round()));
  }
  EXPECT_GE(rounds, 2u);
  EXPECT_LT(Clock::now() - begin, pace_.busy);
  driver.Stop();
}

TEST_F(RoundDriverTest, LooksLaterOnceARecoveryHasBegun) {
  testing::RecordedJob job = testing::TwoRanks(true);
  Feed(&job);
  pace_.busy = pace_.idle = milliseconds(50);
  pace_.confirming_runtime = milliseconds(1200);
  Node node;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, node.Request());
  const auto answer = [&] {
    const Node::Asked asked = node.Next();
    v1::Event event = job.RoundEvent(asked.round);
    const Clock::time_point answered = Clock::now();
    driver.Answer(1, std::move(*event.mutable_round()));
    return answered;
  };
  answer();
  EXPECT_FALSE(analysis_.RuntimeTakesPart());
  v1::Event begun;
  begun.mutable_recovery()->set_step(v1::RECOVERY_STEP_BEGUN);
  analysis_.OnEvent(begun);
  EXPECT_TRUE(analysis_.RuntimeTakesPart());
  answer();  // perhaps asked for before
  const Clock::time_point answered = answer();
  EXPECT_GE(node.Next().at - answered, pace_.confirming_runtime);
  driver.Stop();
}

TEST_F(RoundDriverTest, NodesAreMergedIntoOneRound) {
  testing::RecordedJob job(1);
  Feed(&job);
  Node a, b;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, a.Request());
  // The first round may have been asked of `a` alone.
  Node::Asked asked = a.Next();
  driver.Join(2, b.Request());
  driver.Answer(1, AnswerTo(asked.round, 50));
  asked = a.Next();
  EXPECT_EQ(b.Next().round, asked.round);

  std::atomic<bool> returned = false;
  std::thread first([&] {
    driver.Answer(1, AnswerTo(asked.round, 100));
    returned = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(returned) << "what node 1 tells next is newer than a round that has not ended";
  driver.Answer(2, AnswerTo(asked.round, 90));
  first.join();
  EXPECT_EQ(driver.rounds(), 2u);
  EXPECT_EQ(analysis_.stats().rounds, 2u);
  driver.Stop();
}

TEST_F(RoundDriverTest, ALateOrLostNodeHoldsNobodyUp) {
  pace_.round_timeout = milliseconds(1000);
  Node a, b;
  RoundDriver driver(&analysis_, pace_);
  const uint64_t round = JoinBoth(&driver, &a, &b);
  const Clock::time_point begin = Clock::now();
  driver.Answer(1, AnswerTo(round, 100));  // b says nothing
  EXPECT_LT(Clock::now() - begin, milliseconds(5000));
  EXPECT_EQ(driver.rounds(), 2u);
  driver.Answer(2, AnswerTo(round, 100));  // too late
  EXPECT_EQ(driver.ignored(), 1u);

  const Node::Asked asked = a.Next();
  std::thread waiting([&] { driver.Answer(1, AnswerTo(asked.round, 200)); });
  std::this_thread::sleep_for(milliseconds(20));
  driver.Leave(2);  // its stream died
  waiting.join();
  EXPECT_EQ(driver.rounds(), 3u);
  driver.Stop();
}

// A node of a job that is quicker than the analyzer has much to send before its answer.
TEST_F(RoundDriverTest, WaitsForANodeThatStillDelivers) {
  pace_.round_timeout = milliseconds(1000);
  Node a, b;
  RoundDriver driver(&analysis_, pace_);
  const uint64_t round = JoinBoth(&driver, &a, &b);
  std::thread waiting([&] { driver.Answer(1, AnswerTo(round, 100)); });
  const Clock::time_point until = Clock::now() + 2 * pace_.round_timeout;
  while (Clock::now() < until) {
    driver.Delivered(2);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(driver.rounds(), 1u);
  driver.Answer(2, AnswerTo(round, 100));
  waiting.join();
  EXPECT_EQ(driver.rounds(), 2u);
  EXPECT_EQ(driver.ignored(), 0u);
  driver.Stop();
}

TEST_F(RoundDriverTest, LeavesOutANodeThatDeliversButNeverAnswers) {
  pace_.round_timeout = milliseconds(1000);
  pace_.round_patience = milliseconds(2000);
  Node a, b;
  RoundDriver driver(&analysis_, pace_);
  const uint64_t round = JoinBoth(&driver, &a, &b);
  const Clock::time_point begin = Clock::now();
  std::atomic<bool> ended = false;
  std::thread delivering([&] {
    while (!ended) {
      driver.Delivered(2);
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  driver.Answer(1, AnswerTo(round, 100));
  EXPECT_GE(Clock::now() - begin, pace_.round_timeout);
  EXPECT_EQ(driver.rounds(), 2u);
  ended = true;
  delivering.join();
  driver.Stop();
}

// Who waited for the round's end goes on to tell what is newer, so it must not be fed after that.
TEST_F(RoundDriverTest, ARoundThatIsOpenAtTheEndIsForgotten) {
  Node a, b;
  RoundDriver driver(&analysis_, pace_);
  driver.Join(1, a.Request());
  const uint64_t first = a.Next().round;
  driver.Join(2, b.Request());
  driver.Answer(1, AnswerTo(first, 10));
  const Node::Asked asked = a.Next();
  std::thread waiting([&] { driver.Answer(1, AnswerTo(asked.round, 100)); });
  std::this_thread::sleep_for(milliseconds(20));
  driver.Stop();
  waiting.join();
  driver.Answer(2, AnswerTo(asked.round, 100));
  EXPECT_EQ(driver.rounds(), 1u);
  EXPECT_EQ(analysis_.stats().rounds, 1u);
}

TEST_F(RoundDriverTest, AnswersThatNobodyAskedForAreIgnored) {
  Node node;
  RoundDriver driver(&analysis_, pace_);
  driver.Answer(7, AnswerTo(1, 1));
  driver.Join(1, node.Request());
  const Node::Asked asked = node.Next();
  driver.Answer(1, AnswerTo(asked.round + 5, 1));
  driver.Answer(7, AnswerTo(asked.round, 1));
  EXPECT_EQ(driver.ignored(), 3u);
  EXPECT_EQ(driver.rounds(), 0u);
  driver.Answer(1, AnswerTo(asked.round, 1));
  EXPECT_EQ(driver.rounds(), 1u);
  driver.Answer(1, AnswerTo(asked.round, 1));  // twice
  EXPECT_EQ(driver.ignored(), 4u);
  driver.Stop();
}

}  // namespace
}  // namespace gordian::analyzer
