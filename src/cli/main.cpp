#include "cli/application.h"

int main(int argc, char** argv) { return ridgepoint::cli::run_application(argc, argv); }
