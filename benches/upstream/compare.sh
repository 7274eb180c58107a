#!/usr/bin/env bash
# Tests Burn's CPU backend with the patch, and times the gradients before and after it. Nothing else should run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

name=burn-flex-0.22.1
source=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cp -r compare "$folder/compare"
cp -r "$source" "$folder/before"
cp -r "$source" "$folder/after"
patch -s -p1 -d "$folder/after" < "$name.patch"
# Two packages of one program need two versions.
sed -i '0,/^version = "0.22.1"$/s//version = "0.22.2"/' "$folder/after/Cargo.toml"
export CARGO_TARGET_DIR="$folder/target"
cargo test --manifest-path "$folder/after/Cargo.toml" --lib
cargo run --release --manifest-path "$folder/compare/Cargo.toml"
