#!/usr/bin/env bash
# What needs an NVIDIA GPU, in one call: the device-generic tests, and the launches and times of training steps.
#
#   benches/gpu.sh build FOLDER     compiles the programs into FOLDER, on any machine
#   benches/gpu.sh run FOLDER OUT   runs them on a machine with a GPU, which needs no Rust, and writes reports to OUT
#   benches/gpu.sh OUT              both
#
# SECONDS_FOR_TESTS (default 1200) ends the tests; that some were not reached is said, and is no failure. Tests that need
# data sets run if BURN_BAYES_DATA names their folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

build() {
    local features=burn-bayes-suite/cuda,burn/autotune
    mkdir -p "$1"
    cd "$root"
    cargo test --no-run -p burn-bayes-suite --test it --features "$features" --message-format json |
        grep -o '"executable":"[^"]*/it-[^"]*"' | tail -1 | cut -d'"' -f4 | xargs -I{} cp {} "$1/it"
    # The development profile is optimised; the other features compile Burn once more.
    cargo build -p burn-bayes-benches --features cuda --bin launches --message-format json |
        grep -o '"executable":"[^"]*/launches"' | tail -1 | cut -d'"' -f4 | xargs -I{} cp {} "$1/launches"
    # As in `cargo xtask test --cuda`: what does not depend on the device.
    sed -n '/^const HOST_TESTS/,/^];/ s/^ *"\(.*\)",$/\1/p' xtask/src/stages.rs >"$1/skipped"
}

# In one process, which compiles a kernel once.
tests() {
    local programs=$1 out=$2 skipped=() name
    while read -r name; do skipped+=(--skip "$name"); done <"$programs/skipped"
    [[ -n ${BURN_BAYES_DATA:-} ]] || skipped+=(--skip needs_data)
    local status=0
    timeout "${SECONDS_FOR_TESTS:-1200}" "$programs/it" "${skipped[@]}" >"$out/tests" 2>&1 || status=$?
    awk '/^test .* ok$/ { passed += 1 } /^test .* FAILED$/ { failed += 1; print }
        END { print passed + 0 " passed, " failed + 0 " failed" }' "$out/tests"
    if ((status == 124)); then
        echo "the time was over before all tests had run"
        ! grep -q '^test .* FAILED$' "$out/tests"
    else
        return "$status"
    fi
}

run() {
    local programs out
    programs=$(cd "$1" && pwd)
    mkdir -p "$2"
    out=$(cd "$2" && pwd)
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/device"
    "$programs/launches" small mlp kernels | tee "$out/launches"
    # Choosing the fastest of all kernels for every shape of the tests would take most of the time.
    export BURN_BAYES_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal
    tests "$programs" "$out"
}

case ${1:-} in
build) build "$2" ;;
run) run "$2" "$3" ;;
"")
    sed -n '2,9p' "$0" | cut -c3-
    exit 2
    ;;
*)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    build "$folder"
    run "$folder" "$1"
    ;;
esac
