#include "tests/unit/runtime/ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace gordian::runtime::testing {
namespace {

// An independent reading of the formats: the value of each code by its definition, and the nearest
// code by search among all. Slow and plain.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;
};
Format FormatOf(grtDataType_t type) {
  switch (type) {
    case grtFloat16:
      return {5, 10, 15, true};
    case grtBfloat16:
      return {8, 7, 127, true};
    case grtFloat8e4m3:
      return {4, 3, 7, false};
    default:
      return {5, 2, 15, true};
  }
}

float ValueOf(const Format& f, uint32_t code) {
  const uint32_t sign = code >> (f.exponent_bits + f.mantissa_bits) & 1;
  const uint32_t exponent = code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const uint32_t top = (1u << f.exponent_bits) - 1;
  float value;
  if (exponent == top && f.infinities) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == top && !f.infinities && mantissa == (1u << f.mantissa_bits) - 1) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + (1u << f.mantissa_bits)),
                       static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  }
  return sign != 0 ? -value : value;
}

// To nearest, ties to even; beyond the largest: infinity for 16 bits, the largest for 8.
uint32_t CodeOf(const Format& f, float value) {
  const int bits = 1 + f.exponent_bits + f.mantissa_bits;
  const uint32_t sign = std::signbit(value) ? 1u << (bits - 1) : 0;
  const float magnitude = std::fabs(value);
  // Codes of one sign are in the order of their values.
  uint32_t last = f.infinities ? ((1u << f.exponent_bits) - 1) << f.mantissa_bits
                               : (1u << (bits - 1)) - 1;  // the first that is no finite number
  if (std::isnan(value)) return sign | (f.infinities ? last | 1u << (f.mantissa_bits - 1) : last);
  uint32_t low = 0, high = last - 1;  // finite
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (ValueOf(f, middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == last - 1) {
    const double step = static_cast<double>(ValueOf(f, low)) - ValueOf(f, low - 1);
    if (bits == 8 || magnitude < ValueOf(f, low) + step / 2) return sign | low;
    return sign | last;
  }
  const double below = static_cast<double>(magnitude) - ValueOf(f, low);
  const double above = static_cast<double>(ValueOf(f, low + 1)) - magnitude;
  if (above < below || (above == below && (low & 1) != 0)) ++low;
  return sign | low;
}

template <typename T>
T Get(const Bytes& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
T Combine(grtRedOp_t op, T a, T b) {
  if (op == grtMax) return a < b ? b : a;
  if (op == grtMin) return b < a ? b : a;
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(op == grtProd ? x * y : x + y);
  } else {
    return op == grtProd ? a * b : a + b;
  }
}

template <typename T>
T Average(T sum, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return static_cast<T>(int64_t{sum} / ranks);
    else
      return static_cast<T>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(ranks));
  } else {
    return sum / static_cast<T>(ranks);
  }
}

// Element `at[r]` of each rank's input, in rank order.
template <typename T>
T ReduceElement(grtRedOp_t op, const std::vector<T>& x, const std::vector<T>& scalars) {
  T sum{};
  for (size_t r = 0; r < x.size(); ++r) {
    const T value = op == grtPreMulSum ? Combine(grtProd, x[r], scalars[r]) : x[r];
    sum = r == 0 ? value : Combine(op, sum, value);
  }
  return op == grtAvg ? Average(sum, static_cast<int>(x.size())) : sum;
}

template <typename T>
void ReduceOne(grtRedOp_t op, const std::vector<Bytes>& in, size_t at,
               const std::vector<Bytes>& scalars, unsigned char* out) {
  std::vector<T> x, s;
  for (size_t r = 0; r < in.size(); ++r) {
    x.push_back(Get<T>(in[r], at));
    s.push_back(scalars.empty() ? T{} : Get<T>(scalars[r], 0));
  }
  const T result = ReduceElement<T>(op, x, s);
  std::memcpy(out, &result, sizeof result);
}

template <typename Bits>
void ReduceSmall(grtDataType_t type, grtRedOp_t op, const std::vector<Bytes>& in, size_t at,
                 const std::vector<Bytes>& scalars, unsigned char* out) {
  const Format f = FormatOf(type);
  std::vector<float> x, s;
  for (size_t r = 0; r < in.size(); ++r) {
    x.push_back(ValueOf(f, Get<Bits>(in[r], at)));
    s.push_back(scalars.empty() ? 0 : ValueOf(f, Get<Bits>(scalars[r], 0)));
  }
  const auto code = static_cast<Bits>(CodeOf(f, ReduceElement<float>(op, x, s)));
  std::memcpy(out, &code, sizeof code);
}

void Reduce(const Case& c, const std::vector<Bytes>& in, size_t at,
            const std::vector<Bytes>& scalars, unsigned char* out) {
  switch (c.type) {
    case grtInt8:
      return ReduceOne<int8_t>(c.op, in, at, scalars, out);
    case grtUint8:
      return ReduceOne<uint8_t>(c.op, in, at, scalars, out);
    case grtInt32:
      return ReduceOne<int32_t>(c.op, in, at, scalars, out);
    case grtUint32:
      return ReduceOne<uint32_t>(c.op, in, at, scalars, out);
    case grtInt64:
      return ReduceOne<int64_t>(c.op, in, at, scalars, out);
    case grtUint64:
      return ReduceOne<uint64_t>(c.op, in, at, scalars, out);
    case grtFloat32:
      return ReduceOne<float>(c.op, in, at, scalars, out);
    case grtFloat64:
      return ReduceOne<double>(c.op, in, at, scalars, out);
    case grtFloat16:
    case grtBfloat16:
      return ReduceSmall<uint16_t>(c.type, c.op, in, at, scalars, out);
    case grtFloat8e4m3:
    case grtFloat8e5m2:
      return ReduceSmall<uint8_t>(c.type, c.op, in, at, scalars, out);
  }
}

bool IsPair(grtKind_t kind) { return kind == grtKindSend; }

}  // namespace

void OnRanks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

World::World(int ranks, const grtConfig_t* config) : ranks_(ranks) {
  grtUniqueId id;
  EXPECT_EQ(grtGetUniqueId(&id), grtSuccess);
  for (int r = 0; r < ranks; ++r) {
    grtConfig_t own = GRT_CONFIG_INITIALIZER;
    if (config != nullptr) own = *config;
    own.device = r;
    EXPECT_EQ(grtCommInitRankConfig(&ranks_[r].comm, ranks, id, r, &own), grtSuccess);
    EXPECT_EQ(grtStreamCreate(&ranks_[r].stream), grtSuccess);
  }
}

World::~World() {
  for (Rank& rank : ranks_) {
    if (rank.stream != nullptr) {
      EXPECT_EQ(grtStreamDestroy(rank.stream), grtSuccess);
    }
  }
  for (Rank& rank : ranks_) {
    if (rank.comm != nullptr) {
      EXPECT_EQ(grtCommDestroy(rank.comm, kPatienceNs), grtSuccess);
    }
  }
}

size_t ElementSize(grtDataType_t type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[type];
}

Bytes RandomElements(grtDataType_t type, size_t count, std::mt19937& random) {
  Bytes out(count * ElementSize(type));
  for (size_t i = 0; i < count; ++i) {
    unsigned char* at = out.data() + i * ElementSize(type);
    const int small = static_cast<int>(random() % 9) - 4;
    const float real = static_cast<float>(small) + static_cast<float>(random() % 8) / 8;
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (type) {
      case grtInt8:
      case grtUint8:
        put(static_cast<uint8_t>(random()));
        break;
      case grtInt32:
      case grtUint32:
        put(static_cast<uint32_t>(random()));
        break;
      case grtInt64:
      case grtUint64:
        put(static_cast<uint64_t>(random()) << 32 | random());
        break;
      case grtFloat32:
        put(real * 1.1f);
        break;
      case grtFloat64:
        put(real * 1.1);
        break;
      case grtFloat16:
      case grtBfloat16:
        put(static_cast<uint16_t>(CodeOf(FormatOf(type), real)));
        break;
      default:
        put(static_cast<uint8_t>(CodeOf(FormatOf(type), real)));
        break;
    }
  }
  return out;
}

std::string Name(const Case& c, int ranks) {
  constexpr const char* kKinds[] = {"",          "all-reduce", "all-gather", "reduce-scatter",
                                    "broadcast", "reduce",     "all-to-all", "gather",
                                    "scatter",   "send",       "recv"};
  return std::string(kKinds[c.kind]) + " of " + std::to_string(c.count) + " elements of type " +
         std::to_string(c.type) + ", operator " + std::to_string(c.op) + ", root " +
         std::to_string(c.root) + ", " + std::to_string(ranks) + " ranks" +
         (c.in_place ? ", in place" : "");
}

size_t InputElements(const Case& c, int ranks, int rank) {
  if (c.kind == grtKindScatter) return rank == c.root ? c.count * ranks : 0;
  if (c.kind == grtKindBroadcast) return rank == c.root ? c.count : 0;
  if (c.kind == grtKindReduceScatter || c.kind == grtKindAllToAll) return c.count * ranks;
  return c.count;
}

size_t OutputElements(const Case& c, int ranks, int rank) {
  if (c.kind == grtKindGather) return rank == c.root ? c.count * ranks : 0;
  if (c.kind == grtKindReduce) return rank == c.root ? c.count : 0;
  if (c.kind == grtKindAllGather || c.kind == grtKindAllToAll) return c.count * ranks;
  return c.count;
}

std::vector<Bytes> Expected(const Case& c, const std::vector<Bytes>& inputs,
                            const std::vector<Bytes>& scalars) {
  const int n = static_cast<int>(inputs.size());
  const size_t size = ElementSize(c.type), part = c.count * size;
  std::vector<Bytes> out(n);
  for (int r = 0; r < n; ++r) {
    out[r].resize(OutputElements(c, n, r) * size);
    if (out[r].empty()) continue;
    const auto copy = [&](int to, int from, int from_part) {
      std::memcpy(out[r].data() + to * part, inputs[from].data() + from_part * part, part);
    };
    switch (c.kind) {
      case grtKindAllReduce:
      case grtKindReduce:
      case grtKindReduceScatter:
        for (size_t i = 0; i < c.count; ++i) {
          const size_t at = c.kind == grtKindReduceScatter ? r * c.count + i : i;
          Reduce(c, inputs, at, scalars, out[r].data() + i * size);
        }
        break;
      case grtKindAllGather:
      case grtKindGather:
        for (int m = 0; m < n; ++m) copy(m, m, 0);
        break;
      case grtKindBroadcast:
        copy(0, c.root, 0);
        break;
      case grtKindAllToAll:
        for (int m = 0; m < n; ++m) copy(m, m, r);
        break;
      case grtKindScatter:
        copy(0, c.root, r);
        break;
      default:  // every rank sends to the next one
        copy(0, (r + n - 1) % n, 0);
        break;
    }
  }
  return out;
}

bool RunCase(World& world, const Case& c, uint32_t seed) {
  const int n = world.size();
  std::mt19937 random(seed);
  const size_t size = ElementSize(c.type);
  std::vector<Bytes> inputs, scalars, outputs(n), memory(n);
  for (int r = 0; r < n; ++r) {
    inputs.push_back(RandomElements(c.type, InputElements(c, n, r), random));
    if (c.op == grtPreMulSum) scalars.push_back(RandomElements(c.type, 1, random));
  }
  const std::vector<Bytes> expected = Expected(c, inputs, scalars);
  std::vector<grtResult_t> results(n, grtInternalError);
  OnRanks(n, [&](int r) {
    // In place: one memory that holds both, at NCCL's offsets.
    const size_t whole = std::max(InputElements(c, n, r), OutputElements(c, n, r)) * size;
    unsigned char* in = inputs[r].data();
    unsigned char* out = nullptr;
    if (c.in_place) {
      memory[r].resize(whole + 1);
      const size_t part = c.count * size;
      const size_t in_at = c.kind == grtKindAllGather || c.kind == grtKindGather ? r * part : 0;
      const size_t out_at =
          c.kind == grtKindReduceScatter || c.kind == grtKindScatter ? r * part : 0;
      const bool input = !inputs[r].empty();
      in = memory[r].data() + (inputs[r].size() == whole ? 0 : in_at);
      if (input) std::memcpy(in, inputs[r].data(), inputs[r].size());
      out = memory[r].data() + (expected[r].size() == whole ? 0 : out_at);
    } else {
      outputs[r].resize(expected[r].size() + 1, 0xa5);
      out = outputs[r].data();
    }
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.kind = c.kind;
    d.in = in;
    d.out = out;
    d.count = c.count;
    d.type = c.type;
    d.op = c.op;
    d.root_or_peer = c.root;
    d.comm = world[r].comm;
    if (c.op == grtPreMulSum) d.scalar = scalars[r].data();
    if (IsPair(c.kind)) {
      grtGroupStart();
      grtResult_t first = grtSend(in, c.count, c.type, (r + 1) % n, d.comm, world[r].stream);
      if (first == grtSuccess) {
        first = grtRecv(out, c.count, c.type, (r + n - 1) % n, d.comm, world[r].stream);
      }
      const grtResult_t end = grtGroupEnd();
      results[r] = first != grtSuccess ? first : end;
    } else {
      results[r] = grtSubmit(&d, world[r].stream, nullptr);
    }
    if (results[r] == grtSuccess) {
      results[r] = grtStreamSynchronize(world[r].stream, kPatienceNs);
    }
    if (results[r] == grtSuccess && !c.in_place) {
      EXPECT_EQ(outputs[r].back(), 0xa5) << "rank " << r << " wrote behind its output";
      outputs[r].pop_back();
    } else if (c.in_place) {
      outputs[r].assign(out, out + expected[r].size());
    }
  });
  bool good = true;
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(results[r], grtSuccess) << Name(c, n) << ", rank " << r << ", seed " << seed;
    EXPECT_EQ(outputs[r] == expected[r], true) << Name(c, n) << ", rank " << r << ", seed " << seed;
    good = good && results[r] == grtSuccess && outputs[r] == expected[r];
  }
  return good;
}

}  // namespace gordian::runtime::testing
