#!/usr/bin/env bash
# Installs what a build needs on Debian 12 (or a later Debian or Ubuntu) and is not there yet.
set -euo pipefail

packages=(g++ cmake ninja-build git libdnnl-dev libyaml-cpp-dev libsimdjson-dev libfmt-dev
          libspdlog-dev libcli11-dev libcurl4-openssl-dev zlib1g-dev libzstd-dev libsnappy-dev
          libre2-dev libgtest-dev librapidcheck-dev)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "run as root, or install: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
