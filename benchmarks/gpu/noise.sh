#!/usr/bin/env bash
# How noisy is this GPU? The 8B shape against itself, many comparisons in one run: spreads, and verdicts that are wrong.
#
#   noise.sh [COMPARISONS]      default 20, each of 4 rounds; two servers, started once
. "$(dirname "$0")/environment.sh"
python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
printf '{"model": "models/target-8b", "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
 "serve": {"max_model_len": 2048, "load_format": "dummy", "kv_cache_memory_bytes": 21474836480}}' > "$work/itself.json"
export PYTEST_PLUGINS=pytest_specdec.plugin
time timeout --signal=INT --kill-after=20 "${LIMIT_S:-540}" python3 "$root/benchmarks/repeated_gates.py" a-a --comparisons "${1:-20}" --config "$work/itself.json" \
  --load "concurrency=8, num_requests=24, max_tokens=64, ignore_eos=True" --json "$RESULTS/noise.json" 2>&1 | tee "$RESULTS/noise.txt"
