// The commands of the command-line program. Each takes the words after its name and returns the
// exit status; errors are exceptions.
#pragma once

struct Arguments {
  int count;
  char** values;
};

int run_bench(Arguments);    // bench_host.cpp
int run_devices(Arguments);  // devices.cpp
