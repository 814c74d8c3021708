// Puts a domain's operations into CUDA graphs that the program captures.
#include <algorithm>
#include <utility>

#include "runtime/cuda/domain/domain.h"
#include "runtime/cuda/driver/cuda_calls.h"
#include "runtime/cuda/list/carrier.h"
#include "runtime/cuda/list/group.h"

namespace gordian::runtime::cuda {
namespace {

// Operations of one communicator on one stream.
struct Batch {
  uint32_t number = 0;
  cudaStream_t stream = nullptr;
  std::vector<Work> works;
  std::vector<Touched> touched;
  std::vector<std::vector<Work>> kernels;  // what they are carried by
};

// Splits operations into runs that one kernel carries each. An operation that touches an earlier
// one's buffers comes in a later kernel. So do the operations of one sequence, whose order is the
// same on all members.
std::vector<std::vector<Work>> Kernels(const Batch& batch) {
  const bool one_sequence = std::all_of(batch.works.begin(), batch.works.end(), [&](const Work& w) {
    return w.order_key == batch.works.front().order_key;
  });
  std::vector<std::vector<Work>> kernels;
  size_t begin = 0;
  for (size_t i = 0; i < batch.works.size(); ++i) {
    bool apart = i == 0 || one_sequence;
    for (size_t k = begin; k < i && !apart; ++k)
      apart = Disturbs(batch.touched[i], batch.touched[k]);
    if (apart) {
      begin = i;
      kernels.emplace_back();
    }
    kernels.back().push_back(batch.works[i]);
  }
  return kernels;
}

}  // namespace

Status Domain::OrderOf(uint32_t number, GraphOrder** order) {
  std::unique_ptr<GraphOrder>& known = orders_[number];
  if (known == nullptr) {
    auto made = std::make_unique<GraphOrder>();
    cudaError_t e = made->Begin();
    // The operations called before have no event behind them, so a kernel waits for the counters of
    // their channels in the device's memory.
    for (const auto& [key, last] : last_) {
      if (key / kKeysOfCommunicator != number) continue;
      Gate gate{};
      gate.work = last.work;
      for (uint32_t c = kMaxChannels; c-- > 0;) {
        gate.called[c] = (c + 1 < kMaxChannels ? gate.called[c + 1] : 0) + last.by_channels[c + 1];
        if (gate.called[c] != 0 && gate.channels == 0) gate.channels = c + 1;
      }
      if (e == cudaSuccess && gate.channels != 0) e = LaunchGate(gate, Alone(), made->own_stream());
    }
    if (e == cudaSuccess) e = made->Begun();
    if (Status s = Cuda(e, "keeping the order of a captured communicator"); !s.ok()) {
      orders_.erase(number);
      return s;
    }
    known = std::move(made);
  }
  *order = known.get();
  return Status::Ok();
}

void Domain::EndOf(uint32_t number) {
  std::lock_guard<std::mutex> held(lock_);
  last_.erase(last_.lower_bound(number * kKeysOfCommunicator),
              last_.lower_bound((number + 1) * kKeysOfCommunicator));
  if (const auto known = orders_.find(number); known != orders_.end()) known->second->EndOfCalls();
}

bool Domain::IsReplayed(uint32_t number) {
  std::lock_guard<std::mutex> held(lock_);
  const auto known = orders_.find(number);
  return known == orders_.end() || known->second->IsReplayed();
}

Status Domain::EnqueueCaptured(const std::vector<Queued>& operations) {
  if (Status s = Health(); !s.ok()) return s;
  const RelaxedCapture relaxed;
  std::vector<Batch> batches;
  std::map<cudaStream_t, Capture> streams;     // as they are before
  std::map<uint32_t, cudaStream_t> stream_of;  // by order key
  std::map<cudaStream_t, bool> apart;  // several communicators' operations may go on side by side
  for (const Queued& op : operations) {
    const uint32_t number = op.work.order_key / kKeysOfCommunicator;
    if (stream_of.try_emplace(op.work.order_key, op.stream).first->second != op.stream) {
      return Status::InvalidArgument(
          "a group that is captured has one sequence of operations on several streams");
    }
    if (const auto [at, is_first] = streams.try_emplace(op.stream); is_first) {
      if (Status s = Cuda(CaptureOf(op.stream, &at->second), "asking a stream for its capture");
          !s.ok())
        return s;
      apart[op.stream] = true;
    }
    auto batch = std::find_if(batches.begin(), batches.end(), [&](const Batch& b) {
      return b.number == number && b.stream == op.stream;
    });
    if (batch == batches.end()) {
      batches.push_back({number, op.stream, {}, {}, {}});
      batch = std::prev(batches.end());
    }
    for (const Batch& other : batches) {
      if (other.stream != op.stream || other.number == number) continue;
      for (const Touched& earlier : other.touched) {
        if (Disturbs(op.touched, earlier)) apart[op.stream] = false;
      }
    }
    batch->works.push_back(op.work);
    batch->touched.push_back(op.touched);
  }
  for (Batch& batch : batches) {
    batch.kernels = Kernels(batch);
    for (const std::vector<Work>& kernel : batch.kernels) {
      if (kernel.size() > kGroupOperations) {
        return Status::InvalidArgument(
            "a group that is captured has more operations than one kernel carries");
      }
    }
  }
  std::map<std::pair<uint32_t, unsigned long long>, std::vector<GraphOrder::Tip>>
      tips;                                        // by communicator and capture
  std::map<cudaStream_t, Capture> ends = streams;  // where each stream goes on
  for (auto& [stream, end] : ends) end.tips.clear(), end.edges.clear();
  for (const Batch& batch : batches) {
    GraphOrder* order = nullptr;
    if (Status s = OrderOf(batch.number, &order); !s.ok()) return s;
    Capture now;
    cudaError_t e = cudaSuccess;
    Capture& end = ends.at(batch.stream);
    if (!end.tips.empty() && apart.at(batch.stream))
      e = SetTips(batch.stream, streams.at(batch.stream));
    if (e == cudaSuccess) e = CaptureOf(batch.stream, &now);
    if (e == cudaSuccess) e = order->BeforeCaptured(batch.stream, now);
    for (const std::vector<Work>& kernel : batch.kernels) {
      if (e != cudaSuccess) break;
      e = kernel.size() == 1
              ? LaunchCarrier(kernel.front(), Alone(), most_captured_, false, batch.stream)
              : LaunchGroup(kernel, most_captured_, Alone(), batch.stream);
    }
    if (e == cudaSuccess) e = CaptureOf(batch.stream, &now);
    if (Status s = Cuda(e, "capturing operations"); !s.ok()) return s;
    for (const cudaGraphNode_t node : now.tips) {
      tips[{batch.number, now.id}].push_back({batch.stream, node});
      end.tips.push_back(node);
    }
  }
  cudaError_t e = cudaSuccess;
  for (const auto& [of, nodes] : tips) {
    const auto stream = nodes.front().stream;
    if (e == cudaSuccess) e = orders_.at(of.first)->Captured(streams.at(stream), nodes);
  }
  // Later work of a stream is behind all that its group has there.
  for (const auto& [stream, end] : ends) {
    if (e == cudaSuccess && end.tips.size() > 1) e = SetTips(stream, end);
  }
  return Cuda(e, "capturing operations");
}

}  // namespace gordian::runtime::cuda
