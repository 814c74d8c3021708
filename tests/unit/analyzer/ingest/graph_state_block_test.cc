#include "analyzer/ingest/graph_state_block.h"

#include <gtest/gtest.h>

#include "proto/ring/layout.h"

namespace gordian::analyzer {
namespace {

model::Call NoMeaning(uint32_t) { return model::Call::kOther; }

TEST(GraphStateBlock, KindsAndFlagsAreThoseOfTheRing) {
  for (const ring::NumberKind kind :
       {ring::NumberKind::kCollective, ring::NumberKind::kSend, ring::NumberKind::kReceive,
        ring::NumberKind::kSignalsSent, ring::NumberKind::kSignalsAwaited}) {
    for (const uint32_t flag :
         {ring::kNumbersIncomparable, ring::kNumbersCaptured, ring::kNumbersUsed}) {
      v1::StateBlock block;
      v1::CalledNumbers* numbers = block.add_numbers();
      numbers->set_kind(static_cast<uint32_t>(kind));
      numbers->set_flags(flag);
      const auto out = TranslateBlock(block, NoMeaning);
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(out->numbers[0].kind, kind);
      EXPECT_EQ(out->numbers[0].comparable, flag != ring::kNumbersIncomparable);
      EXPECT_EQ(out->numbers[0].captured, flag == ring::kNumbersCaptured);
      EXPECT_EQ(out->numbers[0].used, flag == ring::kNumbersUsed);
    }
  }
}

TEST(GraphStateBlock, ChannelsOfSignals) {
  v1::StateBlock block;
  block.set_signals(true);
  v1::CalledNumbers* const numbers = block.add_numbers();
  numbers->set_kind(static_cast<uint32_t>(ring::NumberKind::kSignalsSent));
  numbers->mutable_channel()->set_index(-2);
  numbers->mutable_channel()->set_context(7);
  v1::PendingStream* const stream = block.add_streams();
  stream->add_pending()->set_ordinal(1);
  stream->mutable_pending(0)->mutable_channel()->set_index(-2);
  stream->mutable_pending(0)->mutable_channel()->set_context(7);
  stream->add_pending()->set_ordinal(2);
  const auto out = TranslateBlock(block, NoMeaning);
  ASSERT_NE(out, nullptr);
  EXPECT_TRUE(out->signals);
  EXPECT_EQ(out->numbers[0].channel, model::SignalChannelOf(-2, 7));
  EXPECT_TRUE(out->streams[0].pending[0].channel_known);
  EXPECT_EQ(out->streams[0].pending[0].channel, model::SignalChannelOf(-2, 7));
  EXPECT_FALSE(out->streams[0].pending[1].channel_known);
}

TEST(GraphStateBlock, NonsenseIsTheSameAsNone) {
  const auto refused = [](auto&& spoil) {
    v1::StateBlock block;
    block.add_comms()->set_comm(1);
    v1::CalledNumbers* numbers = block.add_numbers();
    numbers->set_kind(1);
    v1::PendingStream* stream = block.add_streams();
    stream->add_pending()->set_ordinal(3);
    EXPECT_NE(TranslateBlock(block, NoMeaning), nullptr);
    spoil(numbers, stream);
    return TranslateBlock(block, NoMeaning) == nullptr;
  };
  EXPECT_TRUE(refused([](auto* numbers, auto*) { numbers->set_kind(9); }));
  EXPECT_TRUE(refused([](auto* numbers, auto*) { numbers->set_next(UINT64_MAX); }));
  EXPECT_TRUE(refused([](auto* numbers, auto*) {
    for (int i = 0; i < 1000; ++i) numbers->add_last();
  }));
  EXPECT_TRUE(refused([](auto*, auto* stream) { stream->set_enqueued(UINT64_MAX); }));
  EXPECT_TRUE(refused([](auto*, auto* stream) { stream->add_pending(); }));
  EXPECT_TRUE(refused([](auto*, auto* stream) {
    stream->mutable_pending(0)->add_after()->set_ordinal(UINT64_MAX);
  }));
}

}  // namespace
}  // namespace gordian::analyzer
