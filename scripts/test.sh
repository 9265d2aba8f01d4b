#!/usr/bin/env bash
# Installs what is missing, builds the release for the CPU and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh
cmake --preset cpu
cmake --build --preset cpu
ctest --preset cpu -j "$(nproc)"
