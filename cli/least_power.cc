#include "cli/least_power.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <initializer_list>
#include <memory>

namespace gordian::cli {
namespace {

Status InstallFilter(const Needs& needs) {
#ifdef __SANITIZE_ADDRESS__
  (void)needs;
  return Status::Ok();
#else
  const std::unique_ptr<void, void (*)(void*)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                      seccomp_release);
  if (filter == nullptr) return Status::Unavailable("libseccomp makes no filter");
  const auto refuse = [&filter](std::initializer_list<int> calls) {
    for (const int call : calls) {
      // A call that this architecture lacks is none to refuse.
      const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0);
      if (error != 0 && error != -EDOM) return error;
    }
    return 0;
  };
  int error =
      refuse({SCMP_SYS(execve),          SCMP_SYS(execveat),      SCMP_SYS(mount),
              SCMP_SYS(umount2),         SCMP_SYS(move_mount),    SCMP_SYS(open_tree),
              SCMP_SYS(mount_setattr),   SCMP_SYS(fsopen),        SCMP_SYS(fsconfig),
              SCMP_SYS(fsmount),         SCMP_SYS(pivot_root),    SCMP_SYS(chroot),
              SCMP_SYS(setns),           SCMP_SYS(unshare),       SCMP_SYS(init_module),
              SCMP_SYS(finit_module),    SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
              SCMP_SYS(kexec_file_load), SCMP_SYS(bpf),           SCMP_SYS(keyctl),
              SCMP_SYS(add_key),         SCMP_SYS(request_key),   SCMP_SYS(swapon),
              SCMP_SYS(reboot),          SCMP_SYS(settimeofday),  SCMP_SYS(clock_settime),
              SCMP_SYS(clock_adjtime),   SCMP_SYS(userfaultfd),   SCMP_SYS(perf_event_open)});
  if (error == 0 && !needs.network) {
    error = refuse({SCMP_SYS(socket), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen),
                    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(io_uring_setup)});
  }
  if (error == 0 && !needs.processes) {
    error = refuse({SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
                    SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo),
                    SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_getfd),
                    SCMP_SYS(kcmp)});
  }
  if (error == 0 && !needs.processes) {
    // raise() and abort() send this process a signal by it.
    const auto self = static_cast<scmp_datum_t>(getpid());
    error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                             SCMP_A0(SCMP_CMP_NE, self));
  }
  // For all threads; and a search through the calls, not a walk along them.
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (error == 0) error = seccomp_load(filter.get());
  return error == 0 ? Status::Ok() : Status::FromErrno(-error, "no seccomp filter");
#endif
}

}  // namespace

Status KeepOnly(const Needs& needs) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Status::FromErrno(errno, "prctl");
  return InstallFilter(needs);
}

}  // namespace gordian::cli
