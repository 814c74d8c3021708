// Include last in every source of the shim. What is poisoned here allocates, locks, or brings in a
// symbol that is younger than the glibc we promise (docs: needs no more than glibc 2.28).
#ifndef GORDIAN_INTERPOSE_FORBIDDEN_H_
#define GORDIAN_INTERPOSE_FORBIDDEN_H_

#pragma GCC poison malloc calloc realloc strdup printf fprintf abort strtol strtoul atoi

#endif  // GORDIAN_INTERPOSE_FORBIDDEN_H_
