// Texts of call sites in Python, from the records that hold their pieces.
#include "collector/process/text_sites.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

constexpr uint64_t kSite = ring::kTextSite | 7;

std::vector<ring::Record> PiecesOf(uint64_t site, const std::string& text, uint32_t thread) {
  std::vector<ring::Record> out;
  constexpr size_t kBytes = sizeof(ring::PiecePayload::text);
  for (size_t at = 0; at < text.size(); at += kBytes) {
    ring::Record record{};
    record.kind = ring::RecordKind::kLongText;
    record.call = ring::kTorchCall_site;
    record.flags = static_cast<uint8_t>(out.size());
    record.thread = thread;
    record.call_site = site;
    const std::string piece = text.substr(at, kBytes);
    memcpy(record.payload.piece.text, piece.data(), piece.size());
    out.push_back(record);
  }
  out.back().flags |= ring::kLastPiece;
  return out;
}

const std::string kText =
    "/a/folder/whose/name/is/long/enough/for/pieces/train.py\n88\nstep\nall_reduce";

TEST(TextSites, PutsPiecesTogether) {
  TextSites sites;
  const auto one = PiecesOf(kSite, kText, 0), other = PiecesOf(kSite + 1, "b.py\n2\nf", 1);
  ASSERT_EQ(one.size(), 3u);
  sites.OnRecord(one[0]);
  for (const ring::Record& record : other) sites.OnRecord(record);  // another thread's in between
  sites.OnRecord(one[1]);
  EXPECT_EQ(sites.Of(kSite), "");
  sites.OnRecord(one[2]);
  EXPECT_EQ(sites.Of(kSite), kText);
  EXPECT_EQ(sites.Of(kSite + 1), "b.py\n2\nf");
  EXPECT_EQ(sites.Of(kSite + 2), "");
}

TEST(TextSites, TakesNoneWithAHole) {
  TextSites sites;
  const auto pieces = PiecesOf(kSite, kText, 0);
  sites.OnRecord(pieces[0]);
  sites.OnRecord(pieces[2]);
  EXPECT_EQ(sites.Of(kSite), "");
  for (const ring::Record& record : pieces) sites.OnRecord(record);
  EXPECT_EQ(sites.Of(kSite), kText);
}

TEST(TextSites, IsBounded) {
  TextSites sites;
  size_t kept = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    for (const ring::Record& record : PiecesOf(kSite + i, "a.py\n1\nf", static_cast<uint32_t>(i))) {
      sites.OnRecord(record);
    }
    kept += sites.Of(kSite + i).empty() ? 0 : 1;
  }
  EXPECT_GT(kept, 1'000u);
  EXPECT_LT(kept, 10'000u);
  EXPECT_NE(sites.Of(kSite), "") << "the first stays";
}

}  // namespace
}  // namespace gordian::collector
