// Settings of jemalloc in the programs that link it (gordian::allocator). They outrank the variable
// MALLOC_CONF, which is the job's: a job that never gives memory back must not make gordian do so.
// A few arenas serve gordian's threads, however many processors the host has: each costs address
// space, which a limit (ulimit -v) may make scarce.
extern "C" const char* malloc_conf_2_conf_harder;
const char* malloc_conf_2_conf_harder =
    "narenas:4,dirty_decay_ms:10000,muzzy_decay_ms:0,abort_conf:false,stats_print:false";
