#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <unordered_set>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/version.h"

namespace gordian {
namespace {

TEST(StatusTest, CarriesCodeAndMessage) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
  const Status status = Status::NotFound("no session in /x");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "not found: no session in /x");
}

TEST(StatusTest, FromErrnoSaysWhatAndWhy) {
  const Status status = Status::FromErrno(EACCES, "cannot open /x");
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), "cannot open /x: Permission denied");
  EXPECT_EQ(Status::FromErrno(ENOENT, "a").code(), StatusCode::kNotFound);
  EXPECT_EQ(Status::FromErrno(ENOSPC, "a").code(), StatusCode::kUnavailable);
}

StatusOr<int> Half(int n) {
  if (n % 2 != 0) {
    return Status::InvalidArgument("odd");
  }
  return n / 2;
}

Status Quarter(int n, int* out) {
  StatusOr<int> half = Half(n);
  GORDIAN_RETURN_IF_ERROR(half.status());
  StatusOr<int> quarter = Half(*half);
  GORDIAN_RETURN_IF_ERROR(quarter.status());
  *out = *quarter;
  return Status::Ok();
}

TEST(StatusTest, StatusOrHoldsOneOfBoth) {
  int out = 0;
  EXPECT_TRUE(Quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(Quarter(6, &out), Status::InvalidArgument("odd"));
  EXPECT_EQ(Quarter(3, &out), Status::InvalidArgument("odd"));
  StatusOr<std::string> text = std::string("moved out");
  EXPECT_EQ(std::move(text).value(), "moved out");
}

TEST(ClockTest, MonotonicAdvancesAndUtcReads) {
  const uint64_t a = MonoNs();
  const uint64_t b = MonoNs();
  EXPECT_LE(a, b);
  EXPECT_EQ(FormatUtc(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatUtc(1'763'694'245'123'456'789ull), "2025-11-21T03:04:05.123Z");
}

TEST(IdsTest, ThreadNumbersAreUniquePerSlotAndGeneration) {
  std::unordered_set<ThreadNumber> seen;
  for (uint32_t generation = 0; generation < 8; ++generation) {
    for (uint32_t slot = 0; slot < 256; ++slot) {
      const ThreadNumber thread = MakeThreadNumber(slot, generation);
      EXPECT_NE(thread.number(), 0u);
      EXPECT_EQ(SlotOf(thread), slot);
      EXPECT_TRUE(seen.insert(thread).second);
    }
  }
  EXPECT_EQ(MakeThreadNumber(3, 2).number(), 1u + 3 + 512);
}

TEST(VersionTest, IsSet) { EXPECT_FALSE(std::string(kVersion).empty()); }

}  // namespace
}  // namespace gordian
