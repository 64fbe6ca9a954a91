#!/usr/bin/env bash
# Verdicts known beforehand, on real timings: see test_controls.py.
#
#   controls.sh [head-LENGTH | draft-LENGTH ...]      default: head-1.0 head-1.5 head-2.5 head-3.0
#
# The KV cache is fixed, and small, so that all five servers start side by side.
. "$(dirname "$0")/environment.sh"
python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
configs=()
for id in "${@:-head-1.0 head-1.5 head-2.5 head-3.0}"; do for one in $id; do
  case $one in
    head-*) method=eagle3 model=head-8b ;;
    draft-*) method=draft_model model=draft-0.6b ;;
    *) echo "no control $one: head-LENGTH or draft-LENGTH" >&2; exit 2 ;;
  esac
  printf '{"model": "models/target-8b", "speculative_config": {"method": "%s", "model": "models/%s", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": %s},
 "serve": {"max_model_len": 2048, "load_format": "dummy", "kv_cache_memory_bytes": "6G", "max_num_seqs": 128}, "measure": {"rounds": 4, "max_rounds": 4, "allow": ["synthetic"]}}' \
    "$method" "$model" "${one#*-}" > "$work/$one.json"
  configs+=("$work/$one.json")
done; done
gate controls "${configs[@]}" -- "$root/benchmarks/gpu/test_controls.py"
