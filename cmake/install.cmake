# `cmake --install` and find_package(ridgepoint).
