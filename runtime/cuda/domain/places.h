// How many blocks an operation's kernel gets on a device on which kernels of other streams may be
// waiting. A kernel whose peers are late keeps its blocks on the device. If the kernels of all
// streams have more blocks than fit, a peer may wait for a block that cannot start: a deadlock of
// the library's making. So while much of the device is taken a kernel gets fewer blocks than its
// operation has channels, at least one, and each block carries several channels (RunChannels).
//
// A place is half a multiprocessor. A block takes one, however few threads it has: devices spread
// blocks, and what a small one leaves of a multiprocessor is too little for a second large one.
// Counted by threads, streams that waited for each other by kernels of seven warps a block hung on
// four GPUs: two of those fit, as of ten. Kernels of a stream run one after the other: a stream
// takes what its largest unfinished one does.
//
// Thread rule: one thread at a time.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_

#include <algorithm>
#include <cstdint>
#include <map>

namespace gordian::runtime::cuda {

// Of a device that gives the process so many multiprocessors (a part of them, under MPS).
constexpr uint32_t PlacesOf(uint32_t multiprocessors) { return 2 * multiprocessors; }

template <typename Stream>
class Places {
 public:
  // `total`: of the device, without those of the resident worker.
  explicit Places(uint32_t total) : total_(total), reserve_(std::min(kReserve, total / 4)) {}

  // What a kernel may have, at most.
  uint32_t most() const { return total_ - reserve_; }

  // For a kernel on `stream` that has a use for `wanted` places. What is noted of streams may be
  // too much; look(note) is called when it matters, and calls note(stream, places) for all that is
  // unfinished. Not more than is wanted, and at least 1.
  template <typename Look>
  uint32_t Grant(Stream stream, uint32_t wanted, Look&& look) {
    if (OfOthers(stream) + wanted + reserve_ > total_) {
      taken_.clear();
      look([this](Stream of, uint32_t places) { Note(of, places); });
    }
    const uint32_t others = OfOthers(stream);
    const uint32_t left = most() > others ? most() - others : 0;
    // Each block carries as many channels as the others, or one less: more blocks than that takes
    // end no sooner. Half of what it wants if there is so much, for two streams are many a
    // program's; else half of what is left, so that there is something for the next ones too.
    const uint32_t half = (wanted + 1) / 2;
    const uint32_t most = wanted <= left ? wanted : half <= left ? half : std::max(left / 2, 1u);
    const uint32_t rounds = (wanted + most - 1) / most;
    const uint32_t granted = (wanted + rounds - 1) / rounds;
    Note(stream, granted);
    return granted;
  }

 private:
  // For as many streams that come when all else is taken.
  static constexpr uint32_t kReserve = 16;
  void Note(Stream stream, uint32_t places) {
    uint32_t& taken = taken_[stream];
    taken = std::max(taken, places);
  }
  uint32_t OfOthers(Stream stream) const {
    uint32_t sum = 0;
    for (const auto& [of, places] : taken_) sum += of == stream ? 0 : places;
    return sum;
  }

  const uint32_t total_;
  const uint32_t reserve_;
  std::map<Stream, uint32_t> taken_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_
