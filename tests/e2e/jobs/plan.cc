// Jobs for the planner: one that trains as data-parallel jobs do, with set times, and one that does
// what a plan.json says, with random delays, and checks every sum that comes out.
//
//   PLAN_FILE      plan_run: the plan; with PLAN_PER_RANK=1 FILE.rankN is rank N's own
//   PLAN_AGREE=0   plan_run: start without comparing the plans' hashes
//   PLAN_SEED      of the delays
//   PLAN_DELAY_US  longest delay (300)
//   PLAN_TP=1      an all-reduce of another communicator in each iteration on the stream of link 1:
//   even ranks
//                  call it before the loss is read, odd ones after; with --twin all of them before
//   PLAN_TIMES     plan_train: a table {"ranks": [[{"forward_us", "backward_us", "comm_us",
//   "elements"}]]} PLAN_STEPS     plan_train, plan_ddp: iterations
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "tests/e2e/jobs/job.h"

namespace {

using nlohmann::json;

long Number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  json document = json::parse(file, nullptr, false);
  if (document.is_discarded()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::_Exit(7);
  }
  return document;
}

cudaEvent_t Event() {
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// Who forms which generation, out of the plan's updates.
struct Generation {
  int64_t number = 0, first = 0;
  int merged = 0;
};

class PlanFile {
 public:
  explicit PlanFile(const json& document) : plan_(document) {
    const int64_t horizon = Warm() + 6 * Period();
    for (int64_t t = 0; t < horizon; ++t) {
      for (const Generation& update : Updates(t)) {
        formed_[update.first + update.merged - 1] = update;
      }
    }
  }
  int64_t Warm() const { return static_cast<int64_t>(plan_["warm_up"].size()); }
  int64_t Period() const { return static_cast<int64_t>(plan_["period"].size()); }
  int64_t Iterations() const { return Warm() + 3 * Period(); }
  int Links() const { return plan_["inputs"]["links"]; }
  int Items() const { return static_cast<int>(plan_["items"].size()); }
  uint64_t Hash() const { return std::stoull(plan_["hash"].get<std::string>(), nullptr, 16); }
  size_t Elements(int item) const {  // small, and not the same for all
    const auto elements = plan_["items"][item]["elements"].get<int64_t>();
    return elements == 0 ? 8 + item % 5 : std::min<int64_t>(elements, 64);
  }
  struct Send {
    int link, item;
    int64_t generation;
    bool ready;
  };
  std::vector<Send> Sends(int64_t t, bool backward) const {
    std::vector<Send> sends;
    for (const json& send : Shape(t)["sends"]) {
      if ((send["stage"] == "backward") != backward) continue;
      sends.push_back({send["link"], send["item"],
                       send["generation"].get<int64_t>() +
                           Round(t) * plan_["generations_per_period"].get<int64_t>(),
                       send["when"] == "ready"});
    }
    return sends;
  }
  std::vector<Generation> Updates(int64_t t) const {
    std::vector<Generation> updates;
    for (const json& update : Shape(t)["updates"]) {
      updates.push_back({update["generation"].get<int64_t>() +
                             Round(t) * plan_["generations_per_period"].get<int64_t>(),
                         update["first_gradient"].get<int64_t>() + Round(t) * Period(),
                         update["merged"]});
    }
    return updates;
  }
  // The generation that is formed in iteration t; null: its gradients wait for a later one.
  const Generation* FormedIn(int64_t t) const {
    const auto at = formed_.find(t);
    return at == formed_.end() ? nullptr : &at->second;
  }

 private:
  int64_t Round(int64_t t) const { return t < Warm() ? 0 : (t - Warm()) / Period(); }
  const json& Shape(int64_t t) const {
    return t < Warm() ? plan_["warm_up"][t] : plan_["period"][(t - Warm()) % Period()];
  }
  const json plan_;
  std::map<int64_t, Generation> formed_;
};

float Gradient(int rank, int64_t iteration, int item) {
  return static_cast<float>((rank + 1) * (iteration + 3) * (item + 1) % 97);
}

// Delays of a rank: of its own, and of its device.
class Delays {
 public:
  explicit Delays(job::Context& c)
      : c_(c),
        random_(Number("PLAN_SEED", 1) * 1000 + c.rank),
        most_(Number("PLAN_DELAY_US", 300)) {}
  void Host() {
    if (most_ > 0 && random_() % 4 == 0) usleep(static_cast<useconds_t>(random_() % most_));
  }
  void Device(cudaStream_t stream) {
    c_.BusyKernel(stream, static_cast<double>(most_ > 0 ? random_() % most_ : 1) * 1e-6);
  }

 private:
  job::Context& c_;
  std::mt19937_64 random_;
  const long most_;
};

// The plans of all ranks are one: an all-gather of their hashes. Each pair that differs is told.
void Agree(job::Context& c, ncclComm_t comm, cudaStream_t stream, uint64_t hash) {
  auto* all = reinterpret_cast<uint64_t*>(c.Buffer(2 * static_cast<size_t>(c.nranks)));
  auto* own = reinterpret_cast<uint64_t*>(c.Buffer(2));
  CUDA_OK(cudaMemcpy(own, &hash, sizeof hash, cudaMemcpyHostToDevice));
  NCCL_OK(ncclAllGather(own, all, 1, ncclUint64, comm, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  std::vector<uint64_t> hashes(c.nranks);
  CUDA_OK(cudaMemcpy(hashes.data(), all, 8 * hashes.size(), cudaMemcpyDeviceToHost));
  bool differ = false;
  for (int a = 0; a < c.nranks; ++a) {
    for (int b = a + 1; b < c.nranks; ++b) {
      if (hashes[a] == hashes[b]) continue;
      differ = true;
      if (c.rank == 0) {
        std::printf("plans differ: rank %d has %016llx, rank %d has %016llx\n", a,
                    static_cast<unsigned long long>(hashes[a]), b,
                    static_cast<unsigned long long>(hashes[b]));
      }
    }
  }
  if (!differ) return;
  std::fflush(nullptr);
  std::_Exit(3);
}

class Runner {
 public:
  Runner(job::Context& c, const PlanFile& plan) : c_(c), plan_(plan), delays_(c) {
    compute_ = c.Stream();
    begin_ = Event();
    loss_ = Event();
    for (int l = 0; l < plan.Links(); ++l) {
      comms_.push_back(c.MakeComm(l == 0 ? "dp" : "dp-link2", c.All()));
      links_.push_back(c.Stream());
    }
    if (Number("PLAN_TP", 0) != 0) {
      tp_ = c.MakeComm("tp", c.All());
      tp_data_ = c.Buffer(16);
    }
    for (int parity = 0; parity < 2; ++parity) {
      for (int i = 0; i < plan.Items(); ++i) {
        buffers_[parity].push_back(c.Buffer(plan.Elements(i)));
        done_[parity].push_back(Event());
      }
    }
    for (int i = 0; i < plan.Items(); ++i) ready_.push_back(Event());
    if (Number("PLAN_AGREE", 1) != 0) Agree(c, comms_[0], links_[0], plan.Hash());
    for (size_t l = 0; l < links_.size(); ++l) c.Warm(comms_[l], links_[l]);
    c.Warm(tp_, links_[0]);
    c.Begin(compute_);
  }

  void Run() {
    for (int64_t t = 0; t < plan_.Iterations(); ++t) Iteration(t);
    CUDA_OK(cudaDeviceSynchronize());
    for (const Result& result : results_) {
      float want = 0;
      for (int r = 0; r < c_.nranks; ++r) {
        for (int g = 0; g < result.generation.merged; ++g) {
          want += Gradient(r, result.generation.first + g, result.item);
        }
      }
      for (const float value : *result.values) {
        if (value == want) continue;
        std::printf("rank %d: generation %lld, item %d: %g instead of %g\n", c_.rank,
                    static_cast<long long>(result.generation.number), result.item, value, want);
        std::fflush(nullptr);
        std::_Exit(6);
      }
    }
    if (c_.rank == 0) std::printf("%zu sums are right\n", results_.size());
  }

 private:
  struct Result {
    Generation generation;
    int item;
    std::shared_ptr<std::vector<float>> values;
  };

  void Send(const PlanFile::Send& send, cudaEvent_t after) {
    delays_.Host();
    const int64_t parity = send.generation % 2;
    cudaStream_t link = links_[send.link - 1];
    CUDA_OK(cudaStreamWaitEvent(link, after, 0));
    c_.Step("send");
    float* data = buffers_[parity][send.item];
    NCCL_OK(ncclAllReduce(data, data, plan_.Elements(send.item), ncclFloat, ncclSum,
                          comms_[send.link - 1], link));
    CUDA_OK(cudaEventRecord(done_[parity][send.item], link));
  }

  void Tp() {
    if (tp_ == nullptr) return;
    NCCL_OK(ncclAllReduce(tp_data_, tp_data_, 16, ncclFloat, ncclSum, tp_, links_[0]));
  }

  void Iteration(int64_t t) {
    CUDA_OK(cudaEventRecord(begin_, compute_));
    for (const PlanFile::Send& send : plan_.Sends(t, false)) Send(send, begin_);
    delays_.Device(compute_);
    CUDA_OK(cudaEventRecord(loss_, compute_));
    const bool early = c_.twin || c_.rank % 2 == 0;
    if (early) Tp();
    CUDA_OK(cudaEventSynchronize(loss_));
    CUDA_OK(cudaEventRecord(begin_, compute_));
    const std::vector<PlanFile::Send> sends = plan_.Sends(t, true);
    for (const PlanFile::Send& send : sends) {
      if (!send.ready) Send(send, begin_);
    }
    if (!early) Tp();
    const Generation* formed = plan_.FormedIn(t);
    for (int item = plan_.Items() - 1; item >= 0; --item) {
      delays_.Device(compute_);
      if (formed == nullptr) continue;  // kept for a later generation
      auto sum = std::make_shared<std::vector<float>>(plan_.Elements(item), 0.f);
      for (int g = 0; g < formed->merged; ++g) {
        for (float& value : *sum) value += Gradient(c_.rank, formed->first + g, item);
      }
      gradients_.push_back(sum);
      CUDA_OK(cudaMemcpyAsync(buffers_[formed->number % 2][item], sum->data(),
                              sum->size() * sizeof(float), cudaMemcpyHostToDevice, compute_));
      CUDA_OK(cudaEventRecord(ready_[item], compute_));
      for (const PlanFile::Send& send : sends) {
        if (send.ready && send.item == item) Send(send, ready_[item]);
      }
    }
    for (const Generation& update : plan_.Updates(t)) {
      for (int item = 0; item < plan_.Items(); ++item) {
        CUDA_OK(cudaStreamWaitEvent(compute_, done_[update.number % 2][item], 0));
        auto values = std::make_shared<std::vector<float>>(plan_.Elements(item));
        results_.push_back({update, item, values});
        Copies(update.number % 2, item, values);
      }
    }
  }

  void Copies(int64_t parity, int item, const std::shared_ptr<std::vector<float>>& values) {
    // To pageable memory a copy would hold the host up: registered first.
    CUDA_OK(cudaHostRegister(values->data(), values->size() * sizeof(float), 0));
    CUDA_OK(cudaMemcpyAsync(values->data(), buffers_[parity][item], values->size() * sizeof(float),
                            cudaMemcpyDeviceToHost, compute_));
  }

  job::Context& c_;
  const PlanFile& plan_;
  Delays delays_;
  cudaStream_t compute_ = nullptr;
  cudaEvent_t begin_ = nullptr, loss_ = nullptr;
  std::vector<ncclComm_t> comms_;
  std::vector<cudaStream_t> links_;
  ncclComm_t tp_ = nullptr;
  float* tp_data_ = nullptr;
  std::vector<float*> buffers_[2];
  std::vector<cudaEvent_t> done_[2], ready_;
  std::vector<std::shared_ptr<std::vector<float>>> gradients_;
  std::vector<Result> results_;
};

struct Times {
  std::vector<double> backward, comm;  // seconds, bucket 1 first
  std::vector<size_t> elements;
  double forward = 0;
};

Times ReadTimes(int rank) {
  const json ranks = ReadJson(std::getenv("PLAN_TIMES"))["ranks"];
  Times times;
  for (const json& bucket : ranks[rank % ranks.size()]) {
    times.forward += bucket["forward_us"].get<double>() * 1e-6;
    times.backward.push_back(bucket["backward_us"].get<double>() * 1e-6);
    times.comm.push_back(bucket["comm_us"].get<double>() * 1e-6);
    times.elements.push_back(bucket["elements"]);
  }
  return times;
}

}  // namespace

JOB(plan_run, 2) {
  std::string path = std::getenv("PLAN_FILE");
  if (Number("PLAN_PER_RANK", 0) != 0) path += ".rank" + std::to_string(c.rank);
  const PlanFile plan(ReadJson(path));
  Runner(c, plan).Run();
}

// Gradients are handed to a thread that waits on the host for each of them, and for each
// all-reduce. The wire's time is a kernel behind the all-reduce.
JOB(plan_train, 2) {
  const Times times = ReadTimes(c.rank);
  const int n = static_cast<int>(times.backward.size());
  ncclComm_t comm = c.MakeComm("dp", c.All());
  cudaStream_t compute = c.Stream(), wire = c.Stream();
  std::vector<cudaEvent_t> ready;
  std::vector<float*> data;
  for (int b = 0; b < n; ++b) {
    ready.push_back(Event());
    data.push_back(c.Buffer(times.elements[b]));
  }
  cudaEvent_t loss = Event(), done = Event();
  c.Warm(comm, wire);
  c.Begin(compute);
  std::mutex mutex;
  std::condition_variable changed;
  long recorded = 0, reduced = 0;  // buckets so far
  const long steps = Number("PLAN_STEPS", 22);
  std::thread communication([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    for (long k = 0; k < steps * n; ++k) {
      const int b = n - 1 - static_cast<int>(k % n);
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return recorded > k; });
      }
      CUDA_OK(cudaEventSynchronize(ready[b]));
      NCCL_OK(ncclAllReduce(data[b], data[b], times.elements[b], ncclFloat, ncclSum, comm, wire));
      c.BusyKernel(wire, times.comm[b]);
      CUDA_OK(cudaEventRecord(done, wire));
      CUDA_OK(cudaEventSynchronize(done));
      std::lock_guard lock(mutex);
      ++reduced;
      changed.notify_all();
    }
  });
  for (long step = 0; step < steps; ++step) {
    c.Step("forward");
    c.BusyKernel(compute, times.forward);
    CUDA_OK(cudaEventRecord(loss, compute));
    CUDA_OK(cudaEventSynchronize(loss));
    for (int b = n - 1; b >= 0; --b) {
      c.BusyKernel(compute, times.backward[b]);
      CUDA_OK(cudaEventRecord(ready[b], compute));
      std::lock_guard lock(mutex);
      ++recorded;
      changed.notify_all();
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reduced == (step + 1) * n; });
  }
  communication.join();
}

// One thread that only enqueues: what depends on what is said by events. With PLAN_TP as above.
JOB(plan_ddp, 2) {
  const Times times = ReadTimes(c.rank);
  const int n = static_cast<int>(times.backward.size());
  ncclComm_t comm = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  cudaStream_t compute = c.Stream(), link = c.Stream();
  std::vector<float*> data;
  for (int b = 0; b < n; ++b) data.push_back(c.Buffer(times.elements[b]));
  float* activations = c.Buffer(16);
  cudaEvent_t loss = Event(), ready = Event(), done = Event();
  c.Warm(comm, link);
  c.Warm(tp, link);
  c.Begin(compute);
  const auto tensor = [&] {
    NCCL_OK(ncclAllReduce(activations, activations, 16, ncclFloat, ncclSum, tp, link));
  };
  const long steps = Number("PLAN_STEPS", 6);
  for (long step = 0; step < steps; ++step) {
    c.Step("forward");
    c.BusyKernel(compute, times.forward);
    CUDA_OK(cudaEventRecord(loss, compute));
    const bool early = c.twin || c.rank % 2 == 0;
    if (early) tensor();
    CUDA_OK(cudaEventSynchronize(loss));
    if (!early) tensor();
    for (int b = n - 1; b >= 0; --b) {
      c.BusyKernel(compute, times.backward[b]);
      CUDA_OK(cudaEventRecord(ready, compute));
      CUDA_OK(cudaStreamWaitEvent(link, ready, 0));
      NCCL_OK(ncclAllReduce(data[b], data[b], times.elements[b], ncclFloat, ncclSum, comm, link));
    }
    CUDA_OK(cudaEventRecord(done, link));
    CUDA_OK(cudaStreamWaitEvent(compute, done, 0));
    c.Step("optimizer");
  }
  CUDA_OK(cudaDeviceSynchronize());
}
