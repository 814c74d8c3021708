// Who is called when something is done, and that nobody looks while there is nothing to look for.
#include "runtime/cuda_api/done_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace gordian::runtime::cuda {
namespace {

struct Thing {
  std::atomic<bool> is_done{false};
  std::atomic<int> asked{0}, called{0};
  std::atomic<grtResult_t> result{grtInProgress};
  std::atomic<std::thread::id> on{}, asked_on{};

  AskFn Ask() {
    return [this](grtResult_t* how) {
      ++asked;
      asked_on = std::this_thread::get_id();
      *how = grtAborted;
      return is_done.load();
    };
  }
  std::function<void(grtResult_t)> Then() {
    return [this](grtResult_t how) {
      result = how;
      on = std::this_thread::get_id();
      ++called;
    };
  }
};

template <typename Is>
void Await(Is is) {
  while (!is()) std::this_thread::yield();
}

TEST(DoneWatchTest, OnceOnAnotherThread) {
  Thing done;
  done.is_done = true;
  WhenDone(done.Ask(), done.Then());
  Await([&] { return done.called == 1; });
  EXPECT_EQ(done.result, grtAborted);
  EXPECT_NE(done.on.load(), std::this_thread::get_id());
  EXPECT_NE(done.asked_on.load(), std::this_thread::get_id());
  std::vector<std::unique_ptr<Thing>> things;
  for (int i = 0; i < 50; ++i) {
    things.push_back(std::make_unique<Thing>());
    WhenDone(things.back()->Ask(), things.back()->Then());
  }
  for (const auto& thing : things) Await([&] { return thing->asked > 2; });
  for (const auto& thing : things) EXPECT_EQ(thing->called, 0);
  for (size_t i = things.size(); i-- > 0;) {
    things[i]->is_done = true;
    Await([&] { return things[i]->called == 1; });
    EXPECT_EQ(things[i]->result, grtAborted);
    EXPECT_NE(things[i]->on.load(), std::this_thread::get_id());
  }
  // Nobody is asked again once all are done; the twin is asked for as long as it is not.
  const auto asked = [&] {
    int sum = 0;
    for (const auto& thing : things) sum += thing->asked;
    return sum;
  };
  const int then = asked();
  Thing twin;
  WhenDone(twin.Ask(), twin.Then());
  Await([&] { return twin.asked > 20; });
  EXPECT_EQ(asked(), then);
  for (const auto& thing : things) EXPECT_EQ(thing->called, 1);
  twin.is_done = true;
  Await([&] { return twin.called == 1; });
}

// A callback that blocks keeps others from being called, and nobody from being asked.
TEST(DoneWatchTest, CallbacksMayBlock) {
  std::atomic<bool> goes_on{false}, blocks{false};
  Thing first, second;
  WhenDone(first.Ask(), [&](grtResult_t) {
    blocks = true;
    Await([&] { return goes_on.load(); });
    ++first.called;
  });
  WhenDone(second.Ask(), second.Then());
  first.is_done = true;
  Await([&] { return blocks.load(); });
  const int asked = second.asked;
  Await([&] { return second.asked > asked + 2; });
  second.is_done = true;
  goes_on = true;
  Await([&] { return first.called == 1 && second.called == 1; });
}

}  // namespace
}  // namespace gordian::runtime::cuda
