#!/usr/bin/env bash
# Verdicts known beforehand, on real timings: see test_controls.py. Acceptance lengths can be given: controls.sh 1.5 2.5
. "$(dirname "$0")/environment.sh"
python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
config() { # ID METHOD FOLDER ACCEPTANCE_LENGTH
  printf '{"model": "models/target-8b", "speculative_config": {"method": "%s", "model": "models/%s", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": %s},
 "serve": {"max_model_len": 2048, "load_format": "dummy"}, "measure": {"rounds": 4, "max_rounds": 6, "allow": ["synthetic"]}}' "$2" "$3" "$4" > "$work/$1.json"
  configs+=("$work/$1.json")
}
configs=()
for length in "${@:-2.5}"; do config "head-$length" eagle3 head-8b "$length"; done
config draft-2.5 draft_model draft-0.6b 2.5
gate controls "${configs[@]}" -- "$root/benchmarks/gpu/test_controls.py"
