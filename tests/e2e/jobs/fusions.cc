// Data-parallel training that fuses gradients into buffers: a buffer is reduced when all gradients
// in it are ready, as in the experiment of dl2's table 3 (Horovod and PyTorch's
// DistributedDataParallel, without what they do about the order).
//
// The gradients are those of Swin-T, backwards. The i-th goes into buffer i mod FUSED_BUFFERS; a
// buffer of FUSED_MB MiB that cannot take the next one is full, and another one takes its place.
// Which gradient is in which buffer is the same at all ranks. A layer's gradients get ready in an
// order that depends on FUSED_SEED and the rank (0: in that of the list), layers one after the
// other. Buffers that are not full are reduced at the end, in their order. In the twin, full ones are
// reduced in one order as well.
#include <algorithm>
#include <random>
#include <utility>

#include "tests/e2e/jobs/job.h"

namespace {

constexpr int kLaterWrong = 7;  // exit code: a sum is wrong

using Layer = std::vector<size_t>;  // elements of its gradients

// Of Swin-T's parameters, in the order of its forward pass: 28,288,354.
std::vector<Layer> SwinTiny() {
  constexpr size_t kDepths[] = {2, 2, 6, 2};
  std::vector<Layer> layers = {{96 * 3 * 16, 96, 96, 96}};
  size_t width = 96, heads = 3;
  for (const size_t depth : kDepths) {
    for (size_t block = 0; block < depth; ++block) {
      layers.push_back({width, width, 169 * heads, 3 * width * width, 3 * width, width * width,
                        width});  // attention
      layers.push_back({width, width, 4 * width * width, 4 * width, 4 * width * width, width});
    }
    if (width == 768) break;
    layers.push_back({4 * width, 4 * width, 8 * width * width});  // merges patches
    width *= 2;
    heads *= 2;
  }
  layers.push_back({width, width});
  layers.push_back({width * 1000, 1000});
  return layers;
}

size_t Setting(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<size_t>(std::atoll(text));
}

struct Fused {
  size_t elements = 0;
  size_t gradients = 0;  // that are not ready
  float* data = nullptr;
  bool full = false;
};

class Fusion {
 public:
  Fusion(job::Context& c, const std::vector<Layer>& layers)
      : c_(c), compute_(c.Stream()), stream_(c.Stream()), world_(c.World()) {
    Assign(layers);
    for (cudaEvent_t* const event : {&layer_, &ready_})
      CUDA_OK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    float* data = c.Buffer(total_);
    std::vector<float> own;
    for (size_t i = 0; i < fused_.size(); ++i) {
      fused_[i].data = data;
      own.insert(own.end(), fused_[i].elements, Value(i, c.rank));
      data += fused_[i].elements;
    }
    CUDA_OK(cudaMemcpy(fused_.front().data, own.data(), own.size() * sizeof(float),
                       cudaMemcpyHostToDevice));
    c.Warm(world_, stream_);
    c.Begin(stream_);
  }

  void Backward() {
    size_t first = 0;
    const size_t seed = Setting("FUSED_SEED", 0);
    std::mt19937 random(static_cast<unsigned>(seed * 16 + static_cast<size_t>(c_.rank)));
    for (const size_t gradients : layers_) {
      std::vector<size_t> order;
      for (size_t i = 0; i < gradients; ++i) order.push_back(first + i);
      if (seed != 0) std::shuffle(order.begin(), order.end(), random);
      for (const size_t gradient : order) OnReady(places_[gradient]);
      first += gradients;
      CUDA_OK(cudaEventRecord(layer_, compute_));
    }
    for (Fused& rest : fused_) {
      if (!rest.full) Reduce(rest);
    }
    c_.Sync(stream_);
  }

  // Of every buffer, the first and the last sum.
  void Check() const {
    for (size_t i = 0; i < fused_.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < c_.nranks; ++rank) sum += Value(i, rank);
      for (const size_t at : {size_t{0}, fused_[i].elements - 1}) {
        float is = 0;
        CUDA_OK(cudaMemcpy(&is, fused_[i].data + at, sizeof is, cudaMemcpyDeviceToHost));
        if (is == sum) continue;
        std::fprintf(stderr, "rank %d, buffer %zu: %f where %f must be\n", c_.rank, i, is, sum);
        std::_Exit(kLaterWrong);
      }
    }
  }

 private:
  static float Value(size_t fused, int rank) {
    return static_cast<float>(4 * fused + static_cast<size_t>(rank) + 1);
  }

  void Assign(const std::vector<Layer>& layers) {
    const size_t most = Setting("FUSED_MB", 1) << 18;  // elements
    std::vector<size_t> open(Setting("FUSED_BUFFERS", 1), SIZE_MAX);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      layers_.push_back(layer->size());
      for (auto elements = layer->rbegin(); elements != layer->rend(); ++elements) {
        size_t& into = open[places_.size() % open.size()];
        if (into != SIZE_MAX && fused_[into].elements + *elements > most) Fill(&into);
        if (into == SIZE_MAX) {
          into = fused_.size();
          fused_.emplace_back();
        }
        places_.push_back(into);
        fused_[into].elements += *elements;
        ++fused_[into].gradients;
        total_ += *elements;
        if (fused_[into].elements >= most) Fill(&into);
      }
    }
  }
  void Fill(size_t* into) {
    fused_[*into].full = true;
    *into = SIZE_MAX;
  }

  void OnReady(size_t place) {
    if (--fused_[place].gradients > 0 || !fused_[place].full) return;
    if (!c_.twin) {
      LaunchReady(fused_[place]);
      return;
    }
    for (; next_ < fused_.size(); ++next_) {
      if (!fused_[next_].full) continue;
      if (fused_[next_].gradients > 0) return;
      Reduce(fused_[next_]);
    }
  }

  // Waits for the gradients as PyTorch's process groups do.
  void LaunchReady(const Fused& fused) {
    CUDA_OK(cudaEventRecord(ready_, compute_));
    CUDA_OK(cudaStreamWaitEvent(stream_, ready_, 0));
    float* const data = fused.data;
    NCCL_OK(ncclAllReduce(data, data, fused.elements, ncclFloat, ncclSum, world_, stream_));
  }
  void Reduce(const Fused& fused) {
    float* const data = fused.data;
    NCCL_OK(ncclAllReduce(data, data, fused.elements, ncclFloat, ncclSum, world_, stream_));
  }

  job::Context& c_;
  const cudaStream_t compute_, stream_;
  const ncclComm_t world_;
  cudaEvent_t layer_ = nullptr, ready_ = nullptr;
  std::vector<size_t> layers_;  // gradients of each, backwards
  std::vector<size_t> places_;  // of each gradient, backwards: its buffer
  std::vector<Fused> fused_;
  size_t total_ = 0;
  size_t next_ = 0;  // twin: the first that may not have been reduced
};

}  // namespace

JOB(fused_gradients, 2) {
  Fusion fusion(c, SwinTiny());
  fusion.Backward();
  fusion.Check();
}
