// Writes MLCommons Chakra execution traces: a file for each rank, of its operations on GPUs and
// what each was put behind.
//
// Facts: schema/protobuf/et_def.proto of github.com/mlcommons/chakra, and its converter's and
// feeder's sources: a message GlobalMetadata and then a Node for each operation, each behind its
// length; the feeder honours data_deps alone; each attribute has one type. Cross-rank waits follow
// from pg_name and the order of nodes.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "analyzer/exporters/formats.h"
#include "analyzer/exporters/operation_spool.h"
#include "analyzer/exporters/proto_bytes.h"
#include "analyzer/exporters/torch_type_name.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/number_text.h"

namespace gordian::exporters {
namespace {

using model::Call;

constexpr char kVersion[] = "0.0.4";

namespace metadata {
constexpr int kVersion = 1, kAttribute = 2;
}
namespace node {
constexpr int kId = 1, kName = 2, kType = 3, kControl = 4, kData = 5, kStart = 6, kDuration = 7,
              kInputs = 8, kOutputs = 9, kAttribute = 10;
enum Type : uint64_t { kSend = 5, kReceive = 6, kCollective = 7 };
}  // namespace node
namespace attribute {
constexpr int kName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kText = 29;
}
namespace tensors {  // IOInfo
constexpr int kShapes = 2, kTypes = 3;
}

int64_t CommTypeOf(Call call) {  // CollectiveCommType; -1: it has none
  switch (call) {
    case Call::kAllReduce:
      return 0;
    case Call::kReduce:
      return 1;
    case Call::kAllGather:
      return 2;
    case Call::kGather:
      return 3;
    case Call::kScatter:
      return 4;
    case Call::kBroadcast:
      return 5;
    case Call::kAllToAll:
      return 6;
    case Call::kReduceScatter:
      return 7;
    default:
      return -1;
  }
}

class NodeWriter {
 public:
  explicit NodeWriter(ProtoBytes* out) : out_(*out) {}

  void Text(const char* name, std::string_view value) {
    const size_t begun = Begin(name);
    out_.Text(attribute::kText, value);
    out_.End(begun);
  }
  void Int32(const char* name, int32_t value) { Number(name, attribute::kInt32, value); }
  void Int64(const char* name, int64_t value) { Number(name, attribute::kInt64, value); }
  void Uint64(const char* name, uint64_t value) {
    Number(name, attribute::kUint64, static_cast<int64_t>(value));
  }
  void Bool(const char* name, bool value) { Number(name, attribute::kBool, value ? 1 : 0); }

 private:
  size_t Begin(const char* name) {
    const size_t begun = out_.Begin(node::kAttribute);
    out_.Text(attribute::kName, name);
    return begun;
  }
  void Number(const char* name, int field, int64_t value) {
    const size_t begun = Begin(name);
    out_.Signed(field, value);
    out_.End(begun);
  }

  ProtoBytes& out_;
};

void WriteTensor(int field, uint64_t elements, uint8_t datatype, ProtoBytes* out) {
  const size_t begun = out->Begin(field);
  out->Text(tensors::kShapes, elements == 0 ? "[]" : "[[" + std::to_string(elements) + "]]");
  out->Text(tensors::kTypes,
            elements == 0 ? "[]" : std::string("[\"") + TorchTypeName(datatype) + "\"]");
  out->End(begun);
}

class RankTrace {
 public:
  RankTrace(const Job& job, int rank, const LoggedRank& logged)
      : job_(job), rank_(rank), logged_(logged) {
    std::map<model::ProcessId, std::set<uint64_t>> operations;
    for (size_t i = 0; i < logged.operations.size(); ++i) {
      const LoggedOperation& operation = logged.operations[i];
      operations[operation.process].insert(operation.order);
      place_[{operation.process, operation.order}] = i;
    }
    for (const auto& [process, orders] : operations)
      edges_[process] = job.log.stream_order().Of(process, orders);
  }

  std::string Bytes() {
    const size_t begun = out_.BeginDelimited();
    out_.Text(metadata::kVersion, kVersion);
    const size_t by = out_.Begin(metadata::kAttribute);
    out_.Text(attribute::kName, "schema");
    out_.Text(attribute::kText, std::string(kVersion) + "-gordian");
    out_.End(by);
    out_.End(begun);
    for (size_t i = 0; i < logged_.operations.size(); ++i) WriteNode(i);
    return std::move(out_.bytes());
  }

 private:
  // Node numbers are places + 1: 0 is what protobuf leaves out.
  static uint64_t Id(size_t place) { return place + 1; }

  void WriteDependencies(size_t place) {
    const LoggedOperation& operation = logged_.operations[place];
    const auto [last, first] =
        last_of_thread_.try_emplace({operation.process, operation.thread}, place);
    if (!first) out_.Varint(node::kControl, Id(last->second));
    last->second = place;
    const StreamOrder::Edges& edges = edges_[operation.process];
    const auto behind = edges.find(operation.order);
    if (behind == edges.end()) return;
    for (const uint64_t order : behind->second) {
      const auto other = place_.find({operation.process, order});
      if (other != place_.end()) out_.Varint(node::kData, Id(other->second));
    }
  }

  int32_t JobRank(const LoggedGroup& group, int member) const {
    const bool known = member >= 0 && static_cast<size_t>(member) < group.ranks.size();
    return known ? group.ranks[static_cast<size_t>(member)] : -1;
  }

  void WriteNode(size_t place) {
    const LoggedOperation& operation = logged_.operations[place];
    const LoggedGroup& group = job_.log.groups()[static_cast<size_t>(operation.group)];
    const model::Role role{.call = operation.call,
                           .member = operation.member,
                           .root_or_peer = operation.root_or_peer,
                           .count = operation.count};
    const uint64_t sent = model::ElementsSent(role, group.ranks.size());
    const uint64_t received = model::ElementsReceived(role, group.ranks.size());
    const uint64_t bytes =
        model::LargestBuffer(operation.call, operation.count, group.ranks.size()) *
        model::DatatypeBytes(operation.datatype);
    // All-gather's and gather's members each bring a part of the largest buffer.
    const bool gathers = operation.call == Call::kAllGather || operation.call == Call::kGather;
    const uint64_t size =
        gathers ? operation.count * model::DatatypeBytes(operation.datatype) : bytes;
    const bool send = operation.call == Call::kSend;
    const size_t begun = out_.BeginDelimited();
    out_.Varint(node::kId, Id(place));
    out_.Text(node::kName, std::string(model::Name(operation.call)) + " " +
                               model::NumberText(operation.sequence) + " on " + group.name);
    out_.Varint(node::kType, !operation.IsTransfer() ? node::kCollective
                             : send                  ? node::kSend
                                                     : node::kReceive);
    WriteDependencies(place);
    out_.Varint(node::kStart, job_.RealTime(operation.called_ns) / 1000);
    if (operation.done_ns > operation.called_ns)
      out_.Varint(node::kDuration, (operation.done_ns - operation.called_ns) / 1000);
    WriteTensor(node::kInputs, sent, operation.datatype, &out_);
    WriteTensor(node::kOutputs, received, operation.datatype, &out_);
    NodeWriter attributes(&out_);
    attributes.Bool("is_cpu_op", false);
    attributes.Text("pg_name", group.name);
    attributes.Int64("comm_size", static_cast<int64_t>(size));
    attributes.Uint64("tensor_size", size);
    if (operation.IsTransfer()) {
      const int32_t peer = JobRank(group, operation.root_or_peer);
      attributes.Int32("comm_src", send ? rank_ : peer);
      attributes.Int32("comm_dst", send ? peer : rank_);
      attributes.Int32("comm_tag", static_cast<int32_t>(operation.sequence & 0x7fffffff));
    } else {
      const int64_t type = CommTypeOf(operation.call);
      if (type >= 0) attributes.Int64("comm_type", type);
      if (operation.root_or_peer >= 0) attributes.Int64("root", operation.root_or_peer);
    }
    attributes.Int64("stream", operation.stream);
    attributes.Int64("tid", operation.thread);
    attributes.Uint64("seq", operation.sequence);
    attributes.Text("state", Name(operation.progress));
    out_.End(begun);
  }

  const Job& job_;
  const int rank_;
  const LoggedRank& logged_;
  ProtoBytes out_;
  std::map<std::pair<model::ProcessId, uint64_t>, size_t> place_;
  std::map<model::ProcessId, StreamOrder::Edges> edges_;
  std::map<std::pair<model::ProcessId, uint32_t>, size_t> last_of_thread_;
};

// Holds one rank's operations at a time.
class Chakra final : public StreamedFormat {
 public:
  Chakra(ScratchFile* scratch, size_t keep) : spool_(scratch), keep_(keep) {}

  void OnRecord(const model::CallRecord&) override {}
  void OnEvent(const v1::Event&) override {}
  void OnOperation(const LoggedOperation& operation) override { spool_.Add(operation); }
  void AtEnd(const model::JobModel&, analyzer::CallSites*) override {}

  StatusOr<Exported> Finish(const Job&) override {
    return Exported{.files = {},
                    .notes = {"the nodes are NCCL's operations alone: a simulator sees no time of "
                              "kernels between them"}};
  }

  Status WriteFiles(const Job& job, const TakeFile& take) override {
    const auto rank_of = [&](int group, int member) { return job.RankOf(group, member); };
    std::set<int> ranks = spool_.Ranks(rank_of);
    for (const auto& [rank, logged] : job.log.ranks()) ranks.insert(rank);
    for (const int rank : ranks) {
      LoggedRank logged;
      GORDIAN_RETURN_IF_ERROR(spool_.ForEach(
          rank, rank_of, keep_,
          [&](const LoggedOperation& operation) { logged.operations.push_back(operation); }));
      GORDIAN_RETURN_IF_ERROR(
          take("gordian." + std::to_string(rank) + ".et", RankTrace(job, rank, logged).Bytes()));
    }
    return Status::Ok();
  }

 private:
  OperationSpool spool_;
  const size_t keep_;
};

}  // namespace

std::unique_ptr<StreamedFormat> StreamChakra(ScratchFile* scratch, size_t keep) {
  return std::make_unique<Chakra>(scratch, keep);
}

}  // namespace gordian::exporters
