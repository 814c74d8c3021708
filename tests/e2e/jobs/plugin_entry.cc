// The jobs as a library: see plugin_host.cc.
int job_main(int argc, char** argv);  // job.cc's main, under this name

extern "C" int plugin_main(int argc, char** argv) { return job_main(argc, argv); }
