// P2: every step plan moves every block once and adds every contribution once; then real data of
// all types, left and gone on with at every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/core/step_plan.h"
#include "runtime/cpu/step_world.h"

namespace gordian::runtime {
namespace {

std::string Text(const StepPlan& plan) {
  return std::to_string(plan.nodes) + " x " + std::to_string(plan.local) + " inter " +
         std::to_string(static_cast<int>(plan.inter)) + " kind " +
         std::to_string(static_cast<int>(plan.kind));
}

// Follows one plan in rounds. "": all is well.
std::string Check(const StepPlan& plan) {
  const uint32_t p = Ranks(plan);
  const bool gather = plan.kind == PlanKind::kAllGather;
  // Whose contributions are in rank r's block b.
  std::vector<std::vector<uint64_t>> in(p, std::vector<uint64_t>(p, 0));
  std::vector<uint64_t> out(p, 0);
  for (uint32_t r = 0; r < p; ++r) {
    for (uint32_t b = 0; b < p; ++b) {
      if (!gather || b == r) in[r][b] = uint64_t{1} << r;
    }
  }
  for (uint32_t pc = 0; pc < StepCount(plan); ++pc) {
    const auto before = in;
    for (uint32_t r = 0; r < p; ++r) {
      const PlanStep mine = StepAt(plan, r, pc);
      if (mine.to >= p || mine.from >= p || mine.to == r || mine.from == r)
        return "a peer is wrong";
      if (mine.reduce == gather) return "reduces and should not, or the other way";
      const PlanStep theirs = StepAt(plan, mine.from, pc);
      if (theirs.to != r) return "the sender sends elsewhere";
      if (theirs.send.count != mine.receive.count) return "lengths differ";
      out[r] += mine.send.count;
      for (uint32_t i = 0; i < mine.receive.count; ++i) {
        const uint32_t block = mine.receive.At(i);
        if (theirs.send.At(i) != block) return "blocks differ";
        const uint64_t comes = before[mine.from][block];
        if (comes == 0) return "sent before it is there";
        if ((in[r][block] & comes) != 0) return "arrives twice";
        in[r][block] |= comes;
      }
    }
  }
  const uint64_t all = p == 64 ? ~uint64_t{0} : (uint64_t{1} << p) - 1;
  for (uint32_t r = 0; r < p; ++r) {
    if (out[r] != p - 1) return "moves " + std::to_string(out[r]) + " blocks";
    for (uint32_t b = 0; b < p; ++b) {
      if (gather ? in[r][b] != uint64_t{1} << b : (b == r && in[r][b] != all))
        return "is not complete";
    }
  }
  return "";
}

std::vector<StepPlan> FlatPlans() {
  std::vector<StepPlan> plans;
  for (uint32_t n = 1; n <= 64; ++n) {
    for (const InterPlan inter : {InterPlan::kRing, InterPlan::kDoubling, InterPlan::kBruck}) {
      for (const PlanKind kind : {PlanKind::kAllGather, PlanKind::kReduceScatter}) {
        const StepPlan plan{n, 1, inter, kind};
        if (IsValid(plan)) plans.push_back(plan);
      }
    }
  }
  return plans;
}

std::vector<StepPlan> AllPlans() {
  std::vector<StepPlan> plans;
  for (uint32_t n = 1; n <= 64; ++n) {
    for (uint32_t m = 1; n * m <= 64; ++m) {
      for (const InterPlan inter : {InterPlan::kRing, InterPlan::kDoubling, InterPlan::kBruck}) {
        for (const PlanKind kind : {PlanKind::kAllGather, PlanKind::kReduceScatter}) {
          const StepPlan plan{n, m, inter, kind};
          if (IsValid(plan)) plans.push_back(plan);
        }
      }
    }
  }
  return plans;
}

TEST(P2, EveryPlanIsRight) {
  EXPECT_EQ(FlatPlans().size(), 270u);
  EXPECT_EQ(AllPlans().size(), 1374u);
  for (const StepPlan& plan : FlatPlans()) EXPECT_EQ(Check(plan), "") << Text(plan);
  for (const StepPlan& plan : AllPlans()) EXPECT_EQ(Check(plan), "") << Text(plan);
}

TEST(P2, InvalidPlans) {
  EXPECT_FALSE(IsValid({.nodes = 0}));
  EXPECT_FALSE(IsValid({.nodes = 6, .inter = InterPlan::kDoubling}));
  EXPECT_FALSE(IsValid({.nodes = 65536, .local = 65536}));
}

TEST(P2, StepsOfTheHierarchy) {
  EXPECT_EQ(StepCount({.nodes = 8, .local = 4, .inter = InterPlan::kDoubling}), 3u + 3u);
  EXPECT_EQ(StepCount({.nodes = 5, .local = 4, .inter = InterPlan::kBruck}), 3u + 3u);
  EXPECT_EQ(StepCount({.nodes = 5, .local = 4, .inter = InterPlan::kRing}), 4u + 3u);
}

TEST(P2, SmallFloats) {
  EXPECT_EQ(Half::Encode(1.0f), 0x3c00);
  EXPECT_EQ(Half::Encode(65504.0f), 0x7bff);
  EXPECT_EQ(Half::Encode(65520.0f), 0x7c00);
  EXPECT_EQ(Half::Encode(5.9604645e-8f), 1);
  EXPECT_EQ(Bfloat16::Encode(1.0f), 0x3f80);
  EXPECT_EQ(Float8E4M3::Encode(448.0f), 0x7e);
  EXPECT_EQ(Float8E4M3::Encode(1000.0f), 0x7e);
  EXPECT_EQ(Float8E5M2::Encode(57344.0f), 0x7b);
  EXPECT_EQ(Float8E4M3::Decode(0x38), 1.0f);
  EXPECT_EQ(Float8E5M2::Decode(0x3c), 1.0f);
  // All codes but NaNs come back; values between two codes go to the nearer, halves to the even
  // one.
  const auto round_trip = [](auto format, uint32_t codes) {
    using F = decltype(format);
    for (uint32_t code = 0; code < codes; ++code) {
      const float value = F::Decode(static_cast<typename F::Bits>(code));
      if (value != value || value == value * 2) continue;  // NaN, infinity, zero
      ASSERT_EQ(F::Encode(value), code);
      const float next = F::Decode(static_cast<typename F::Bits>(code + 1));
      if (next != next || next == next * 2 || (code + 1) % codes == 0) continue;
      const float middle = value + (next - value) / 2;
      ASSERT_EQ(F::Encode(middle), (code & 1) != 0 ? code + 1 : code);
      ASSERT_EQ(F::Encode(value + (next - value) / 4), code);
    }
  };
  round_trip(Half{}, 0x7c00);
  round_trip(Bfloat16{}, 0x7f80);
  round_trip(Float8E4M3{}, 0x7e);
  round_trip(Float8E5M2{}, 0x7b);
}

// Who gave block b to whom in the all-gather, in order, by the textbook and not by StepAt. A
// message is (step, from, to, block).
struct Message {
  uint32_t step, from, to, block;
};
std::vector<Message> TextbookGather(const StepPlan& plan) {
  std::vector<Message> messages;
  const uint32_t n = plan.nodes, m = plan.local;
  std::vector<std::vector<uint32_t>> has(n);  // blocks of nodes, in the order in which they came
  for (uint32_t i = 0; i < n; ++i) has[i] = {i};
  uint32_t step = 0;
  for (uint32_t far = 1; far < n;
       far = plan.inter == InterPlan::kRing ? far + 1 : far * 2, ++step) {
    const auto before = has;
    for (uint32_t to = 0; to < n; ++to) {
      uint32_t from = 0;
      std::vector<uint32_t> blocks;
      if (plan.inter == InterPlan::kRing) {
        from = (to + n - 1) % n;
        blocks = {before[from].back()};
      } else if (plan.inter == InterPlan::kDoubling) {
        from = to ^ far;
        blocks = before[from];
      } else {
        from = (to + far) % n;
        blocks.assign(before[from].begin(),
                      before[from].begin() + std::min<size_t>(before[from].size(), n - far));
      }
      for (const uint32_t b : blocks) {
        has[to].push_back(b);
        for (uint32_t j = 0; j < m; ++j)
          messages.push_back({step, from * m + j, to * m + j, b * m + j});
      }
    }
  }
  for (uint32_t s = 0; s + 1 < m; ++s, ++step) {
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t j = 0; j < m; ++j) {
        for (uint32_t k = 0; k < n; ++k) {
          messages.push_back({step, i * m + j, i * m + (j + 1) % m, k * m + (j + m - s) % m});
        }
      }
    }
  }
  return messages;
}

class Data {
 public:
  Data(const StepPlan& plan, DataType type, Operator op, uint32_t seed)
      : plan_(plan), type_(type), op_(op), ranks_(Ranks(plan)), size_(SizeOf(type)) {
    std::mt19937 random(seed);
    const bool gather = plan.kind == PlanKind::kAllGather;
    for (uint32_t r = 0; r < ranks_; ++r) {
      std::vector<unsigned char> buffer(ranks_ * kCount * size_, gather ? 0xEE : 0);
      for (uint32_t b = 0; b < ranks_; ++b) {
        if (gather && b != r) continue;
        for (size_t i = 0; i < kCount; ++i) Fill(&buffer[(b * kCount + i) * size_], random);
      }
      buffers_.push_back(buffer);
    }
    inputs_ = buffers_;
  }

  StepOperation Operation() {
    StepOperation operation{.plan = plan_, .type = type_, .op = op_, .count = kCount};
    for (auto& buffer : buffers_) operation.buffers.push_back(buffer.data());
    return operation;
  }

  // "": what every rank must have, to the bit.
  std::string Compare() const {
    std::vector<std::vector<Message>> messages(ranks_);  // [block]
    for (const Message& message : TextbookGather(plan_)) messages[message.block].push_back(message);
    for (uint32_t b = 0; b < ranks_; ++b) {
      if (plan_.kind == PlanKind::kAllGather) {
        for (uint32_t r = 0; r < ranks_; ++r) {
          if (std::memcmp(Block(buffers_[r], b), Block(inputs_[b], b), kCount * size_) != 0) {
            return "rank " + std::to_string(r) + " has a wrong block " + std::to_string(b);
          }
        }
        continue;
      }
      // The tree of block b, read backwards: a rank adds what it gave the block to, last given
      // first.
      std::map<uint32_t, std::vector<uint32_t>> children;
      for (const Message& message : messages[b]) children[message.from].push_back(message.to);
      const std::function<std::vector<unsigned char>(uint32_t)> sum = [&](uint32_t r) {
        std::vector<unsigned char> own(Block(inputs_[r], b), Block(inputs_[r], b) + kCount * size_);
        auto& given = children[r];
        for (size_t i = given.size(); i-- > 0;) {
          const std::vector<unsigned char> other = sum(given[i]);
          Combine(type_, op_, own.data(), other.data(), kCount);
        }
        return own;
      };
      std::vector<unsigned char> want = sum(b);
      if (op_ == Operator::kAverage) Divide(type_, want.data(), kCount, ranks_);
      if (std::memcmp(Block(buffers_[b], b), want.data(), kCount * size_) != 0) {
        return "rank " + std::to_string(b) + " has a wrong sum";
      }
    }
    return "";
  }

  // Integers are exact whatever the order.
  bool IntegersAreSums() const {
    if (type_ != DataType::kInt64 || plan_.kind != PlanKind::kReduceScatter) return true;
    for (uint32_t b = 0; b < ranks_; ++b) {
      for (size_t i = 0; i < kCount; ++i) {
        uint64_t sum = 0;
        for (uint32_t r = 0; r < ranks_; ++r) sum += Word(inputs_[r], b, i);
        if (op_ == Operator::kSum && sum != Word(buffers_[b], b, i)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kCount = 3;

  const unsigned char* Block(const std::vector<unsigned char>& buffer, uint32_t b) const {
    return &buffer[b * kCount * size_];
  }
  uint64_t Word(const std::vector<unsigned char>& buffer, uint32_t b, size_t i) const {
    uint64_t word = 0;
    std::memcpy(&word, Block(buffer, b) + i * size_, 8);
    return word;
  }

  void Fill(unsigned char* at, std::mt19937& random) const {
    const float small = static_cast<float>(static_cast<int>(random() % 400) - 200) / 128;
    switch (type_) {
      case DataType::kHalf:
        return Store(at, Half::Encode(small));
      case DataType::kBfloat16:
        return Store(at, Bfloat16::Encode(small));
      case DataType::kFloat8E4M3:
        return Store(at, Float8E4M3::Encode(small));
      case DataType::kFloat8E5M2:
        return Store(at, Float8E5M2::Encode(small));
      case DataType::kFloat:
        return Store(at, small * 1.1f);
      case DataType::kDouble:
        return Store(at, static_cast<double>(small) * 1.1);
      default:
        for (size_t i = 0; i < size_; ++i) at[i] = static_cast<unsigned char>(random());
    }
  }
  template <typename T>
  static void Store(unsigned char* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }

  const StepPlan plan_;
  const DataType type_;
  const Operator op_;
  const uint32_t ranks_;
  const size_t size_;
  std::vector<std::vector<unsigned char>> buffers_, inputs_;
};

// Runs two operations between the same ranks, taken up in opposite orders by odd and even ranks.
// After every single step the rank is left, and whatever it is gone on with comes from 32 bytes.
std::string RunPreempted(Data* first, Data* second, uint32_t ranks, uint32_t seed) {
  StepWorld world;
  const std::vector<int> operations = {world.Add(first->Operation()),
                                       world.Add(second->Operation())};
  std::vector<unsigned char> kept(operations.size() * ranks * sizeof(StepContext), 0);
  std::mt19937 random(seed);
  struct Turn {
    int operation;
    uint32_t rank;
  };
  std::vector<Turn> open;
  for (uint32_t r = 0; r < ranks; ++r) {
    for (const int o : operations) open.push_back({r % 2 == 0 ? o : operations[1] - o, r});
  }
  size_t idle = 0;
  while (!open.empty()) {
    const size_t at = random() % open.size();
    const Turn turn = open[at];
    unsigned char* bytes = &kept[(turn.operation * ranks + turn.rank) * sizeof(StepContext)];
    StepContext context;
    std::memcpy(&context, bytes, sizeof context);
    const StepContext before = context;
    switch (world.TryStep(turn.operation, turn.rank, &context)) {
      case StepResult::kAdvanced:
        idle = 0;
        break;
      case StepResult::kNotReady:
        if (std::memcmp(&before, &context, sizeof context) != 0) return "changed though not ready";
        if (++idle > open.size() * 200) return "nothing moves any more";
        break;
      case StepResult::kDone:
        open[at] = open.back();
        open.pop_back();
        break;
    }
    std::memcpy(bytes, &context, sizeof context);
  }
  return world.InFlight() == 0 ? "" : "messages are left over";
}

constexpr uint32_t kCombinations = kDataTypes * kOperators;

std::vector<StepPlan> Reductions() {
  std::vector<StepPlan> plans = AllPlans();
  std::erase_if(plans, [](const StepPlan& plan) { return plan.kind != PlanKind::kReduceScatter; });
  return plans;
}

// Reduces and gathers by a plan at the same time.
void RunBoth(const StepPlan& plan, uint32_t combination, uint32_t seed) {
  const StepPlan gather{plan.nodes, plan.local, plan.inter, PlanKind::kAllGather};
  const auto type = static_cast<DataType>(combination / kOperators);
  const auto op = static_cast<Operator>(combination % kOperators);
  Data reduce(plan, type, op, seed);
  Data spread(gather, type, op, seed + 1'000'000);
  ASSERT_EQ(RunPreempted(&reduce, &spread, Ranks(plan), seed), "") << Text(plan);
  ASSERT_EQ(reduce.Compare(), "") << Text(plan) << " combination " << combination;
  ASSERT_EQ(spread.Compare(), "") << Text(plan) << " combination " << combination;
  ASSERT_TRUE(reduce.IntegersAreSums());
}

// Each plan with one of the 60 combinations of type and operator.
TEST(P2, RealDataPreemptedAtEveryStep) {
  uint32_t next = 0;
  std::vector<int> used(kCombinations, 0);
  for (const StepPlan& plan : Reductions()) {
    const uint32_t combination = next++ % kCombinations;
    ++used[combination];
    ASSERT_NO_FATAL_FAILURE(RunBoth(plan, combination, next));
  }
  EXPECT_GT(*std::min_element(used.begin(), used.end()), 10);
}

// Every 60th plan with all of them. GORDIAN_PLAN_FULL=1: each plan. GORDIAN_PLAN_FULL=FIRST-LAST:
// each plan with those from FIRST to LAST of 0 to 59; a line tells of each that is done, so that
// what was stopped can be gone on with.
TEST(P2, RealDataOfAllTypesAndOperators) {
  const char* asked = std::getenv("GORDIAN_PLAN_FULL");
  uint32_t first = 0, last = kCombinations - 1;
  if (asked != nullptr && std::strchr(asked, '-') != nullptr) {
    ASSERT_EQ(std::sscanf(asked, "%u-%u", &first, &last), 2) << asked;
  }
  ASSERT_LT(last, kCombinations);
  for (uint32_t combination = first; combination <= last; ++combination) {
    uint32_t number = 0;
    for (const StepPlan& plan : Reductions()) {
      ++number;
      if (asked == nullptr && number % kCombinations != 0) continue;
      ASSERT_NO_FATAL_FAILURE(RunBoth(plan, combination, number * kCombinations + combination));
    }
    if (asked == nullptr) continue;
    std::printf("P2 combination %u of 0 to %u: %u plans\n", combination, last, number);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gordian::runtime
