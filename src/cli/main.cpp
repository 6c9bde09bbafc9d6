#include "cli/application.h"
#include "cli/terminal/standard_streams.h"

int main(int argc, char** argv) {
  ridgepoint::cli::reserve_standard_streams();
  return ridgepoint::cli::run_application(argc, argv);
}
