#include "cli/application.h"
#include "core/processes/child_process.h"

int main(int argc, char** argv) {
  ridgepoint::end_with_parent();
  return ridgepoint::cli::run_application(argc, argv);
}
