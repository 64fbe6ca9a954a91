#!/usr/bin/env bash
# The same comparison of an 8B shape under several placements: the gains must agree. Placements can be given: placements.sh swap sequential
# (split needs two GPUs). TP=2 spreads each server over two GPUs. SHAPE=24b takes a target that fits the GPU only once; EAGER=1 starts sooner, without compilation and CUDA graphs.
# Shown at the end: what each server's sleep, wake-up, start and warm-up took.
. "$(dirname "$0")/environment.sh"
python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
for placement in "${@:-swap}"; do
  mkdir -p "$work/$placement-configs"
  printf '{"model": "../models/target-%s", "speculative_config": {"method": "eagle3", "model": "../models/head-%s", "num_speculative_tokens": 3,
 "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}, "placement": "%s",
 "serve": {"max_model_len": 2048, "load_format": "dummy"%s%s}, "measure": {"rounds": 4, "max_rounds": 4, "allow": ["synthetic"]}}' \
    "${SHAPE:-8b}" "${SHAPE:-8b}" "$placement" "${EAGER:+, \"enforce_eager\": true}" "${TP:+, \"tensor_parallel_size\": $TP}" > "$work/$placement-configs/head-2.5.json"
  gate "$placement" "$work/$placement-configs/head-2.5.json" -- -k c8 "$root/benchmarks/gpu/test_controls.py"
  python3 -m pytest_specdec.cli show "$work/$placement/results.json" | tee "$RESULTS/$placement.show.txt"
done
