#include "tests/corpus/executor/communicate.h"

#include <array>
#include <functional>
#include <utility>

namespace corpus {
namespace {

constexpr size_t kSites = 32;

struct Type {
  const char* name;
  ncclDataType_t nccl;
  size_t bytes;
};
constexpr Type kTypes[] = {{"f32", ncclFloat32, 4},
                           {"f64", ncclFloat64, 8},
                           {"i32", ncclInt32, 4},
                           {"i64", ncclInt64, 8},
                           {"u8", ncclUint8, 1}};

const Type& TypeOf(const std::string& name) {
  for (const Type& type : kTypes) {
    if (name == type.name) return type;
  }
  Fail("no type " + name);
}

ncclRedOp_t Operator(const Operation& op) {
  const std::string& name = op.Text("op");
  if (name == "sum") return ncclSum;
  if (name == "max") return ncclMax;
  if (name == "min") return ncclMin;
  Fail("no operator " + name);
}

int Rooted(const Operation& op) { return static_cast<int>(op.Number("root")); }
int Peer(const Operation& op) { return static_cast<int>(op.Number("peer")); }

template <size_t Site>
[[gnu::noinline]] ncclResult_t CallAt(const Operation& op, const Transfer& t) {
  const size_t count = static_cast<size_t>(op.Number("count"));
  const ncclDataType_t type = TypeOf(op.Text("type")).nccl;
  if (op.kind == "all_reduce")
    return ncclAllReduce(t.input, t.output, count, type, Operator(op), t.comm, t.stream);
  if (op.kind == "all_gather")
    return ncclAllGather(t.input, t.output, count, type, t.comm, t.stream);
  if (op.kind == "reduce_scatter") {
    return ncclReduceScatter(t.input, t.output, count, type, Operator(op), t.comm, t.stream);
  }
  if (op.kind == "broadcast")
    return ncclBroadcast(t.input, t.output, count, type, Rooted(op), t.comm, t.stream);
  if (op.kind == "reduce") {
    return ncclReduce(t.input, t.output, count, type, Operator(op), Rooted(op), t.comm, t.stream);
  }
  if (op.kind == "all_to_all")
    return ncclAlltoAll(t.input, t.output, count, type, t.comm, t.stream);
  if (op.kind == "gather")
    return ncclGather(t.input, t.output, count, type, Rooted(op), t.comm, t.stream);
  if (op.kind == "scatter")
    return ncclScatter(t.input, t.output, count, type, Rooted(op), t.comm, t.stream);
  if (op.kind == "send") return ncclSend(t.input, count, type, Peer(op), t.comm, t.stream);
  if (op.kind == "recv") return ncclRecv(t.output, count, type, Peer(op), t.comm, t.stream);
  Fail("line " + std::to_string(op.line) + ": no operation " + op.kind);
}

using Call = ncclResult_t (*)(const Operation&, const Transfer&);

template <size_t... Sites>
constexpr std::array<Call, sizeof...(Sites)> Table(std::index_sequence<Sites...>) {
  return {&CallAt<Sites>...};
}

}  // namespace

size_t ElementSize(const std::string& type) { return TypeOf(type).bytes; }

ncclResult_t CallFromItsSite(const Operation& op, const Transfer& transfer) {
  static constexpr std::array<Call, kSites> table = Table(std::make_index_sequence<kSites>());
  const std::string& name = op.Has("site") ? op.Text("site") : op.label;
  return table[std::hash<std::string>()(name) % kSites](op, transfer);
}

}  // namespace corpus
