// `mote bench cpu`, on rows that take no time.
#include <doctest/doctest.h>

#include "test/process.h"

using namespace mote;

TEST_CASE("bench cpu: a row of JSON has its fields, in order") {
  Ran ran = run_mote("bench cpu --json --only exp-64k --seconds 0.01 2>/dev/null");
  CHECK(ran.status == 0);
  size_t at = 0;
  for (const char* key :
       {"name\": \"exp-64k", "ms", "gflops", "gbs", "peer", "peer_ms", "ratio", "bar\": 1.00"}) {
    size_t found = ran.output.find('"' + std::string(key), at);
    CHECK_MESSAGE(found != std::string::npos, key, " in ", ran.output);
    at = std::max(at, found == std::string::npos ? at : found + 1);
  }
}

TEST_CASE("bench cpu: the last line counts rows, and a part's options are its own") {
  CHECK(has(run_mote("bench cpu --only exp-64k,log-64k --seconds 0.01"), "\n2 rows, "));
  CHECK(has(run_mote("bench cpu --only no-such-row"), "no row has no-such-row in its name"));
  Ran host = run_mote("bench host --threads 2");
  CHECK(host.status == 2);
  CHECK(has(host, "--threads is not an option of `bench host`"));
}
