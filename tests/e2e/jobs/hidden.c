/* Preloaded: the process may not be traced by who has no privilege. */
#include <sys/prctl.h>

__attribute__((constructor)) static void Hide(void) { prctl(PR_SET_DUMPABLE, 0); }
