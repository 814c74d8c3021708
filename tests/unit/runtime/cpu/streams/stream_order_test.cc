// Which units may begin before their turn; and how members agree on a route.
#include "runtime/cpu/streams/stream_order.h"

#include <gtest/gtest.h>

#include "gordian/runtime_front.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

cudaStream_t Stream(uintptr_t n) { return reinterpret_cast<cudaStream_t>(n << 4); }

class StreamOrderTest : public ::testing::Test {
 protected:
  StreamOrderTest() {
    order_.Declare(one_, true, true);
    order_.Declare(two_, true, true);
  }
  std::shared_ptr<Unit> Place(cudaStream_t stream) {
    auto unit = std::make_shared<Unit>();
    unit->stream = stream;
    order_.Place(unit.get());
    return unit;
  }
  StreamOrder order_;
  const cudaStream_t one_ = Stream(1), two_ = Stream(2);
  int event_ = 0;
};

TEST_F(StreamOrderTest, NothingButOperations) {
  const auto a = Place(one_), b = Place(one_);
  EXPECT_TRUE(b->early && order_.HasStarted(*a) && order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, ForeignWorkEndsTheStretchUntilTheTurn) {
  const auto a = Place(one_);
  order_.Foreign(one_);
  const auto b = Place(one_), c = Place(one_);
  EXPECT_FALSE(order_.HasStarted(*b));
  EXPECT_FALSE(order_.HasStarted(*c));
  order_.Turn(a.get());
  EXPECT_FALSE(order_.HasStarted(*c));
  order_.Turn(b.get());  // what was in front of b is done, so c needs nothing else either
  EXPECT_TRUE(order_.HasStarted(*c));
}

TEST_F(StreamOrderTest, EventsBehindOperationsAlone) {
  const auto a = Place(one_);
  order_.Recorded(&event_, one_);
  order_.Awaited(&event_, two_);
  const auto b = Place(two_);
  EXPECT_TRUE(order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, EventsBehindForeignWork) {
  order_.Foreign(one_);
  order_.Recorded(&event_, one_);
  order_.Awaited(&event_, two_);
  const auto b = Place(two_);
  EXPECT_FALSE(order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, EventsBehindAnOperationWhoseTurnHasNotCome) {
  order_.Foreign(one_);
  const auto a = Place(one_);
  order_.Recorded(&event_, one_);
  order_.Awaited(&event_, two_);
  const auto b = Place(two_);
  EXPECT_FALSE(order_.HasStarted(*b));
  order_.Turn(a.get());
  EXPECT_TRUE(order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, UnknownEventsAndStreams) {
  order_.Awaited(&event_, two_);
  EXPECT_FALSE(order_.HasStarted(*Place(two_)));
  EXPECT_FALSE(Place(Stream(3))->early);
  order_.ForeignAll();
  EXPECT_FALSE(order_.HasStarted(*Place(one_)));
}

// Markers that are reached when the test says so.
class Marking : public StreamDriver {
 public:
  struct Point : StreamMarker {
    bool reached = false;
    bool Reached() override { return reached; }
  };
  std::shared_ptr<StreamMarker> Mark(cudaStream_t) override {
    points.push_back(std::make_shared<Point>());
    return points.back();
  }
  bool StandsApart(cudaStream_t) override { return apart; }
  grtResult_t Enqueue(const std::shared_ptr<Unit>&) override { return grtSuccess; }
  void Release(const std::shared_ptr<Unit>&) override {}
  bool Carries() const override { return false; }
  int CurrentDevice() override { return 0; }
  bool IsCapturing(cudaStream_t) override { return false; }

  std::vector<std::shared_ptr<Point>> points;
  bool apart = false;
};

TEST_F(StreamOrderTest, WorkOnTheLegacyStream) {
  for (const bool apart : {true, false}) {
    Marking driver;
    driver.apart = apart;
    const cudaStream_t stream = Stream(apart ? 3 : 4);
    order_.Declare(stream, true, false, &driver);
    const auto a = Place(stream);
    order_.Turn(a.get());
    order_.ForeignAll();
    EXPECT_EQ(order_.HasStarted(*Place(stream)), apart);
  }
}

// As in training: what is communicated is ready when a kernel on another stream is, whatever else
// its own stream still has in front of it.
TEST_F(StreamOrderTest, EventsBehindWorkThatIsDone) {
  Marking driver;
  const auto a = Place(one_);
  order_.Foreign(two_);
  order_.Recorded(&event_, two_, &driver);
  order_.Awaited(&event_, one_, &driver);
  const auto b = Place(one_);
  ASSERT_EQ(driver.points.size(), 1u);
  EXPECT_TRUE(order_.HasStarted(*a));
  EXPECT_FALSE(order_.HasStarted(*b));
  driver.points[0]->reached = true;
  EXPECT_TRUE(order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, AWaitBehindWorkThatIsDone) {
  Marking driver;
  const auto a = Place(one_);
  order_.Recorded(&event_, one_, &driver);
  order_.Foreign(two_);
  order_.Awaited(&event_, two_, &driver);
  const auto b = Place(two_);
  ASSERT_EQ(driver.points.size(), 1u);
  EXPECT_FALSE(order_.HasStarted(*b));
  driver.points[0]->reached = true;
  EXPECT_TRUE(order_.HasStarted(*b));
}

TEST_F(StreamOrderTest, AStreamThatIsNew) {
  Marking driver;
  const cudaStream_t fresh = Stream(3);
  const auto a = Place(one_);
  order_.Recorded(&event_, one_, &driver);
  order_.Declare(fresh, true, false);
  order_.Awaited(&event_, fresh, &driver);
  const auto b = Place(fresh);
  ASSERT_EQ(driver.points.size(), 1u);
  driver.points[0]->reached = true;
  EXPECT_TRUE(b->early && order_.HasStarted(*b));
}

// Work between an operation and the next is never passed, however many events are about it.
TEST_F(StreamOrderTest, WorkBetweenIsNotPassed) {
  Marking driver;
  order_.Foreign(one_);
  const auto a = Place(one_);
  order_.Turn(a.get());
  order_.Foreign(one_);
  order_.Recorded(&event_, one_, &driver);
  order_.Awaited(&event_, two_, &driver);
  EXPECT_FALSE(order_.HasStarted(*Place(one_)));
  EXPECT_FALSE(order_.HasStarted(*Place(two_)));
}

TEST(Agree, OnlyIfAllWant) {
  for (const int against : {-1, 1}) {
    grtUniqueId id;
    ASSERT_EQ(grtGetUniqueId(&id), grtSuccess);
    int agreed[3] = {7, 7, 7};
    OnRanks(3, [&](int r) {
      EXPECT_EQ(grtAgree(id, 3, 1, r != against, kPatienceNs, &agreed[r]), grtSuccess);
    });
    for (const int each : agreed) EXPECT_EQ(each, against < 0 ? 1 : 0);
  }
}

// A thread that makes several members asks once for all of them.
TEST(Agree, OneSpeaksForSeveral) {
  for (const bool wanted : {true, false}) {
    grtUniqueId id;
    ASSERT_EQ(grtGetUniqueId(&id), grtSuccess);
    int agreed[2] = {7, 7};
    OnRanks(2, [&](int r) {
      EXPECT_EQ(grtAgree(id, 5, r == 0 ? 4 : 1, r == 0 || wanted, kPatienceNs, &agreed[r]),
                grtSuccess);
    });
    for (const int each : agreed) EXPECT_EQ(each, wanted ? 1 : 0);
  }
  grtUniqueId id;
  ASSERT_EQ(grtGetUniqueId(&id), grtSuccess);
  int alone = 7;
  EXPECT_EQ(grtAgree(id, 3, 3, 1, kPatienceNs, &alone), grtSuccess);
  EXPECT_EQ(alone, 1);
  EXPECT_EQ(grtAgree(id, 3, 4, 1, kPatienceNs, &alone), grtInvalidArgument);
}

TEST(Agree, WhoDoesNotComeMakesItNoForAll) {
  grtUniqueId id;
  ASSERT_EQ(grtGetUniqueId(&id), grtSuccess);
  int agreed[3] = {7, 7, 7};
  OnRanks(2, [&](int r) { EXPECT_EQ(grtAgree(id, 3, 1, 1, 1'000'000, &agreed[r]), grtSuccess); });
  EXPECT_EQ(grtAgree(id, 3, 1, 1, kPatienceNs, &agreed[2]), grtSuccess);  // too late
  for (const int each : agreed) EXPECT_EQ(each, 0);
}

}  // namespace
}  // namespace gordian::runtime::testing
