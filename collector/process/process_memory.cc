#include "collector/process/process_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include <algorithm>

namespace gordian::collector {
namespace {

constexpr uint64_t kPageBytes = 4096;

}  // namespace

bool ProcessMemory::Read(uint64_t address, void* to, size_t bytes) {
  if (address == 0 || address + bytes < address) {
    error_ = EFAULT;
    return false;
  }
  iovec local{.iov_base = to, .iov_len = bytes};
  iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes};
  const ssize_t got = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  if (got < 0) {
    error_ = errno;
  } else if (static_cast<size_t>(got) != bytes) {
    error_ = EFAULT;
  }
  return got >= 0 && static_cast<size_t>(got) == bytes;
}

size_t ProcessMemory::ReadSome(uint64_t address, void* to, size_t bytes) {
  // Reads a page per part: a transfer that meets a hole then ends between two parts, never within
  // one.
  size_t done = 0;
  while (done < bytes) {
    constexpr size_t kParts = 64;
    iovec remote[kParts];
    size_t parts = 0, asked = 0;
    while (parts < kParts && done + asked < bytes) {
      const uint64_t at = address + done + asked;
      const size_t size = std::min<size_t>(kPageBytes - at % kPageBytes, bytes - done - asked);
      remote[parts++] = {.iov_base = reinterpret_cast<void*>(at), .iov_len = size};
      asked += size;
    }
    iovec local{.iov_base = static_cast<char*>(to) + done, .iov_len = asked};
    const ssize_t got = process_vm_readv(pid_, &local, 1, remote, parts, 0);
    if (got <= 0) {
      error_ = got < 0 ? errno : EFAULT;
      break;
    }
    done += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < asked) {
      break;
    }
  }
  return done;
}

#if defined(__aarch64__)

bool ProcessMemory::FollowsCall(uint64_t address) {
  const std::optional<uint32_t> code = Get<uint32_t>(address - sizeof(uint32_t));
  if (!code || address % sizeof(uint32_t) != 0) return false;
  if ((*code & 0xfc000000) == 0x94000000) return true;  // BL
  // BLR, and its forms BLRAAZ, BLRABZ, BLRAA and BLRAB that authenticate the pointer.
  return (*code & 0xfffffc1f) == 0xd63f0000 || (*code & 0xfefff800) == 0xd63f0800;
}

#else

bool ProcessMemory::FollowsCall(uint64_t address) {
  constexpr size_t kLongest = 7;  // without prefixes
  uint8_t code[kLongest];
  if (!Read(address - kLongest, code, sizeof(code))) return false;
  if (code[kLongest - 5] == 0xe8) return true;  // CALL rel32
  // FF /2, CALL r/m64: by length, what ModRM's mod and r/m must be.
  for (const size_t length : {2, 3, 4, 6, 7}) {
    const uint8_t* const instruction = code + kLongest - length;
    const int mod = instruction[1] >> 6, rm = instruction[1] & 7;
    if (instruction[0] != 0xff || ((instruction[1] >> 3) & 7) != 2) continue;
    size_t needed = 2;
    if (mod != 3 && rm == 4) ++needed;  // SIB
    if (mod == 1) ++needed;             // disp8
    const bool sib_alone = rm == 4 && length > 2 && (instruction[2] & 7) == 5;
    const bool no_base = mod == 0 && (rm == 5 || sib_alone);
    if (mod == 2 || no_base) needed += 4;  // disp32
    if (needed == length) return true;
  }
  return false;
}

#endif

}  // namespace gordian::collector
